// SPDX-License-Identifier: Apache-2.0

package mad

const (
	// REJPrivateLen is the room for private data in a REJ, in bytes.
	REJPrivateLen = 148
	// REJInfoLen is the room for the additional information of a REJ, in bytes.
	REJInfoLen = 72
)

// REJ ends the attempt to connect (IBTA 12.6.7, table 108). Offsets in the MAD:
//
//	24 local comm ID(32)  28 remote comm ID(32)  32 message(2) reserved(6)
//	33 information length(7) reserved(1)  34 reason(16)  36 information(72 bytes)
//	108 private data(148 bytes)
type REJ struct{ Pair }

// ParseREJ returns the view on a REJ, or an error of Parse, or ErrAttr.
func ParseREJ(b []byte) (REJ, error) {
	h, err := parse(b, AttrREJ)
	return REJ{Pair{h}}, err
}

// NewREJ returns a REJ of a message.
func NewREJ(tid uint64, local, remote uint32, k Kind, r Reason) REJ {
	m := REJ{startPair(AttrREJ, tid, local, remote)}
	m.putBits(32, 6, 2, byte(k))
	m.put16(34, uint16(r))
	return m
}

// Message is what is rejected.
func (m REJ) Message() Kind { return Kind(m.bits(32, 6, 2)) }

// Reason is why.
func (m REJ) Reason() Reason { return Reason(m.u16(34)) }

// Info is the additional information, which depends on the reason: for a timeout the CA GUID of
// the sender, for a wrong PMTU a byte with the largest that would do. A length beyond the area is
// cut to it.
func (m REJ) Info() []byte { return m.private(36, min(int(m.bits(33, 1, 7)), REJInfoLen)) }

// PrivateData is the whole area of 148 bytes.
func (m REJ) PrivateData() []byte { return m.private(108, REJPrivateLen) }

// SetInfo writes the additional information and its length; ErrPrivate above 72 bytes.
func (m REJ) SetInfo(p []byte) error {
	err := m.putPrivate(36, REJInfoLen, p)
	if err == nil {
		m.putBits(33, 1, 7, byte(len(p)))
	}
	return err
}

// SetPrivateData writes p and clears the rest of the area; ErrPrivate if p is too long.
func (m REJ) SetPrivateData(p []byte) error { return m.putPrivate(108, REJPrivateLen, p) }
