// SPDX-License-Identifier: Apache-2.0

package mad

// DREQPrivateLen is the room for private data in a DREQ, in bytes.
const DREQPrivateLen = 220

// DREQ ends a connection (IBTA 12.6.10, table 112). Offsets in the MAD:
//
//	24 local comm ID(32)  28 remote comm ID(32)  32 remote QPN(24) reserved(8)
//	36 private data(220 bytes)
type DREQ struct{ Pair }

// ParseDREQ returns the view on a DREQ, or an error of Parse, or ErrAttr.
func ParseDREQ(b []byte) (DREQ, error) {
	h, err := parse(b, AttrDREQ)
	return DREQ{Pair{h}}, err
}

// NewDREQ returns a DREQ for the connection of the receiver's queue pair.
func NewDREQ(tid uint64, local, remote, remoteQPN uint32) DREQ {
	m := DREQ{startPair(AttrDREQ, tid, local, remote)}
	m.put24(32, remoteQPN)
	return m
}

// RemoteQPN is the queue pair of the receiver, 24 bits.
func (m DREQ) RemoteQPN() uint32 { return m.u24(32) }

// PrivateData is the whole area of 220 bytes.
func (m DREQ) PrivateData() []byte { return m.private(36, DREQPrivateLen) }

// SetPrivateData writes p and clears the rest of the area; ErrPrivate if p is too long.
func (m DREQ) SetPrivateData(p []byte) error { return m.putPrivate(36, DREQPrivateLen, p) }
