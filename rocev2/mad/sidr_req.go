// SPDX-License-Identifier: Apache-2.0

package mad

import "github.com/softroce/softroce-xdp/rocev2"

// SIDRREQPrivateLen is the room for private data in a SIDR_REQ, in bytes. With an IP service ID
// the IP addressing header takes IPDataLen of it.
const SIDRREQPrivateLen = 216

// SIDRREQ asks for the UD queue pair of a service (IBTA 12.11.1, table 119). Offsets in the MAD:
//
//	24 request ID(32)  28 P_Key(16)  30 reserved(16)  32 service ID(64)
//	40 private data(216 bytes)
type SIDRREQ struct{ Header }

// ParseSIDRREQ returns the view on a SIDR_REQ, or an error of Parse, or ErrAttr.
func ParseSIDRREQ(b []byte) (SIDRREQ, error) {
	h, err := parse(b, AttrSIDRREQ)
	return SIDRREQ{h}, err
}

// NewSIDRREQ returns a SIDR_REQ with full membership in the default partition.
func NewSIDRREQ(tid uint64, request uint32, id ServiceID) SIDRREQ {
	m := SIDRREQ{start(AttrSIDRREQ, tid)}
	m.put32(24, request)
	m.put16(28, rocev2.DefaultPKey)
	m.put64(32, uint64(id))
	return m
}

// RequestID is the sender's number of the request.
func (m SIDRREQ) RequestID() uint32 { return m.u32(24) }

// PKey is the partition.
func (m SIDRREQ) PKey() uint16 { return m.u16(28) }

// ServiceID is what is asked for.
func (m SIDRREQ) ServiceID() ServiceID { return ServiceID(m.u64(32)) }

// PrivateData is the whole area of 216 bytes.
func (m SIDRREQ) PrivateData() []byte { return m.private(40, SIDRREQPrivateLen) }

// SetPrivateData writes p and clears the rest of the area; ErrPrivate if p is too long.
func (m SIDRREQ) SetPrivateData(p []byte) error { return m.putPrivate(40, SIDRREQPrivateLen, p) }
