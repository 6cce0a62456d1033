// SPDX-License-Identifier: Apache-2.0

package mad

// RTUPrivateLen is the room for private data in an RTU, in bytes.
const RTUPrivateLen = 224

// RTU says that the sender's queue pair is ready to use (IBTA 12.6.9, table 111). Offsets in the
// MAD:
//
//	24 local comm ID(32)  28 remote comm ID(32)  32 private data(224 bytes)
type RTU struct{ Pair }

// ParseRTU returns the view on an RTU, or an error of Parse, or ErrAttr.
func ParseRTU(b []byte) (RTU, error) {
	h, err := parse(b, AttrRTU)
	return RTU{Pair{h}}, err
}

// NewRTU returns an RTU.
func NewRTU(tid uint64, local, remote uint32) RTU { return RTU{startPair(AttrRTU, tid, local, remote)} }

// PrivateData is the whole area of 224 bytes.
func (m RTU) PrivateData() []byte { return m.private(32, RTUPrivateLen) }

// SetPrivateData writes p and clears the rest of the area; ErrPrivate if p is too long.
func (m RTU) SetPrivateData(p []byte) error { return m.putPrivate(32, RTUPrivateLen, p) }
