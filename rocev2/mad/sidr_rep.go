// SPDX-License-Identifier: Apache-2.0

package mad

import "fmt"

// SIDRREPPrivateLen is the room for private data in a SIDR_REP, in bytes.
const SIDRREPPrivateLen = 136

// SIDRStatus is the outcome of a SIDR_REQ (IBTA 12.11.2, table 121).
type SIDRStatus uint8

// The outcomes.
const (
	SIDRSuccess     SIDRStatus = 0
	SIDRUnsupported SIDRStatus = 1 // nothing listens at the service ID
	SIDRReject      SIDRStatus = 2
	SIDRNoQP        SIDRStatus = 3
	SIDRRedirect    SIDRStatus = 4
	SIDRVersion     SIDRStatus = 5
)

var sidrText = [...]string{"success", "nothing listens at this service ID", "refused by the application", "no queue pair available", "redirected", "class version not supported"}

// String returns the meaning, as "no queue pair available".
func (s SIDRStatus) String() string {
	if int(s) < len(sidrText) {
		return sidrText[s]
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// SIDRREP answers a SIDR_REQ (IBTA 12.11.2, table 120). Offsets in the MAD:
//
//	24 request ID(32)  28 status(8)  29 information length(8)  30 reserved(16)
//	32 QPN(24) reserved(8)  36 service ID(64)  44 Q_Key(32)  48 information(72 bytes)
//	120 private data(136 bytes)
type SIDRREP struct{ Header }

// ParseSIDRREP returns the view on a SIDR_REP, or an error of Parse, or ErrAttr.
func ParseSIDRREP(b []byte) (SIDRREP, error) {
	h, err := parse(b, AttrSIDRREP)
	return SIDRREP{h}, err
}

// NewSIDRREP returns an answer without a queue pair.
func NewSIDRREP(tid uint64, request uint32, s SIDRStatus, id ServiceID) SIDRREP {
	m := SIDRREP{start(AttrSIDRREP, tid)}
	m.put32(24, request)
	m.put8(28, byte(s))
	m.put64(36, uint64(id))
	return m
}

// RequestID is the number of the request.
func (m SIDRREP) RequestID() uint32 { return m.u32(24) }

// Status is the outcome.
func (m SIDRREP) Status() SIDRStatus { return SIDRStatus(m.u8(28)) }

// QPN is the queue pair of the service, 24 bits.
func (m SIDRREP) QPN() uint32 { return m.u24(32) }

// ServiceID is what was asked for.
func (m SIDRREP) ServiceID() ServiceID { return ServiceID(m.u64(36)) }

// QKey is what datagrams to QPN must carry.
func (m SIDRREP) QKey() uint32 { return m.u32(44) }

// PrivateData is the whole area of 136 bytes.
func (m SIDRREP) PrivateData() []byte { return m.private(120, SIDRREPPrivateLen) }

// SetQP writes queue pair and key.
func (m SIDRREP) SetQP(qpn, qkey uint32) {
	m.put24(32, qpn)
	m.put32(44, qkey)
}

// SetPrivateData writes p and clears the rest of the area; ErrPrivate if p is too long.
func (m SIDRREP) SetPrivateData(p []byte) error { return m.putPrivate(120, SIDRREPPrivateLen, p) }
