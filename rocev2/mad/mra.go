// SPDX-License-Identifier: Apache-2.0

package mad

// MRAPrivateLen is the room for private data in an MRA, in bytes.
const MRAPrivateLen = 222

// Kind is which message an MRA or a REJ is about, 2 bits.
type Kind uint8

// The kinds; KindOther is LAP in an MRA and any other message in a REJ.
const (
	KindREQ   Kind = 0
	KindREP   Kind = 1
	KindOther Kind = 2
)

// MRA says that a message has arrived and that its answer takes longer (IBTA 12.6.6, table 107).
// Offsets in the MAD:
//
//	24 local comm ID(32)  28 remote comm ID(32)  32 message(2) reserved(6)
//	33 service timeout(5) reserved(3)  34 private data(222 bytes)
type MRA struct{ Pair }

// ParseMRA returns the view on an MRA, or an error of Parse, or ErrAttr.
func ParseMRA(b []byte) (MRA, error) {
	h, err := parse(b, AttrMRA)
	return MRA{Pair{h}}, err
}

// NewMRA returns an MRA for a message.
func NewMRA(tid uint64, local, remote uint32, k Kind) MRA {
	m := MRA{startPair(AttrMRA, tid, local, remote)}
	m.putBits(32, 6, 2, byte(k))
	return m
}

// Message is what has arrived.
func (m MRA) Message() Kind { return Kind(m.bits(32, 6, 2)) }

// ServiceTimeout is how long the answer may take: 4.096 us * 2^n, 5 bits.
func (m MRA) ServiceTimeout() uint8 { return m.bits(33, 3, 5) }

// PrivateData is the whole area of 222 bytes.
func (m MRA) PrivateData() []byte { return m.private(34, MRAPrivateLen) }

// SetServiceTimeout writes 5 bits.
func (m MRA) SetServiceTimeout(v uint8) { m.putBits(33, 3, 5, v) }
