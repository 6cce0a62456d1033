// SPDX-License-Identifier: Apache-2.0

package mad

// DREPPrivateLen is the room for private data in a DREP, in bytes.
const DREPPrivateLen = 224

// DREP answers a DREQ (IBTA 12.6.11, table 113). Offsets in the MAD:
//
//	24 local comm ID(32)  28 remote comm ID(32)  32 private data(224 bytes)
type DREP struct{ Pair }

// ParseDREP returns the view on a DREP, or an error of Parse, or ErrAttr.
func ParseDREP(b []byte) (DREP, error) {
	h, err := parse(b, AttrDREP)
	return DREP{Pair{h}}, err
}

// NewDREP returns a DREP.
func NewDREP(tid uint64, local, remote uint32) DREP {
	return DREP{startPair(AttrDREP, tid, local, remote)}
}

// PrivateData is the whole area of 224 bytes.
func (m DREP) PrivateData() []byte { return m.private(32, DREPPrivateLen) }

// SetPrivateData writes p and clears the rest of the area; ErrPrivate if p is too long.
func (m DREP) SetPrivateData(p []byte) error { return m.putPrivate(32, DREPPrivateLen, p) }
