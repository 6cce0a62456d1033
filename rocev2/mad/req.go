// SPDX-License-Identifier: Apache-2.0

package mad

import (
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
)

// REQPrivateLen is the room for private data in a REQ, in bytes. With an IP service ID the IP
// addressing header takes IPDataLen of it.
const REQPrivateLen = 92

// Service is the transport service of a connection, as a REQ names it.
type Service uint8

// The services; values above do not exist on RoCEv2.
const (
	ServiceRC Service = 0
	ServiceUC Service = 1
)

// REQ asks for a connection (IBTA 12.6.5, table 106). Offsets in the MAD:
//
//	24 local comm ID(32)  28 reserved(32)  32 service ID(64)  40 local CA GUID(64)
//	48 reserved(32)  52 local Q_Key(32)  56 local QPN(24)  59 responder resources(8)
//	60 local EECN(24)  63 initiator depth(8)  64 remote EECN(24)
//	67 remote CM response timeout(5) service(2) end-to-end flow control(1)
//	68 starting PSN(24)  71 local CM response timeout(5) retry count(3)
//	72 P_Key(16)  74 PMTU(4) RDC exists(1) RNR retry count(3)
//	75 max CM retries(4) SRQ(1) extended transport(3)
//	76 primary path: local LID(16)  78 remote LID(16)  80 local GID(128)  96 remote GID(128)
//	112 flow label(20) reserved(6) packet rate(6)  116 traffic class(8)  117 hop limit(8)
//	118 SL(4) subnet local(1) reserved(3)  119 local ACK timeout(5) reserved(3)
//	120 alternate path(44 bytes)  164 private data(92 bytes)
type REQ struct{ Header }

// ParseREQ returns the view on a REQ, or an error of Parse, or ErrAttr.
func ParseREQ(b []byte) (REQ, error) {
	h, err := parse(b, AttrREQ)
	return REQ{h}, err
}

// NewREQ returns an empty REQ with full membership in the default partition.
func NewREQ(tid uint64) REQ {
	m := REQ{start(AttrREQ, tid)}
	m.put16(72, rocev2.DefaultPKey)
	return m
}

// LocalCommID is the communication ID of the sender.
func (m REQ) LocalCommID() uint32 { return m.u32(24) }

// ServiceID is what listens at the receiver.
func (m REQ) ServiceID() ServiceID { return ServiceID(m.u64(32)) }

// CAGUID tells channel adapters apart; comm IDs and QPNs of one are unique.
func (m REQ) CAGUID() uint64 { return m.u64(40) }

// QPN is the queue pair of the sender, 24 bits.
func (m REQ) QPN() uint32 { return m.u24(56) }

// ResponderResources is how many READs and ATOMICs of the receiver the sender serves at a time.
func (m REQ) ResponderResources() uint8 { return m.u8(59) }

// InitiatorDepth is how many READs and ATOMICs the sender wants to have outstanding.
func (m REQ) InitiatorDepth() uint8 { return m.u8(63) }

// RemoteResponseTimeout is within what time the receiver shall answer: 4.096 us * 2^n, 5 bits.
func (m REQ) RemoteResponseTimeout() uint8 { return m.bits(67, 3, 5) }

// Service is the transport service, 2 bits.
func (m REQ) Service() Service { return Service(m.bits(67, 1, 2)) }

// FlowControl says that the sender's send queue observes the credits of AETHs.
func (m REQ) FlowControl() bool { return m.bits(67, 0, 1) != 0 }

// PSN is with which number the receiver of this message starts to send (IBTA 12.7.31).
func (m REQ) PSN() rocev2.PSN { return rocev2.PSN(m.u24(68)) }

// LocalResponseTimeout is within what time the sender answers: 4.096 us * 2^n, 5 bits.
func (m REQ) LocalResponseTimeout() uint8 { return m.bits(71, 3, 5) }

// RetryCount is how often the receiver's queue pair repeats a packet, 0..7.
func (m REQ) RetryCount() uint8 { return m.bits(71, 0, 3) }

// PKey is the partition.
func (m REQ) PKey() uint16 { return m.u16(72) }

// PMTU is the path MTU of the connection; others than 1 to 5 may stand there.
func (m REQ) PMTU() rocev2.PMTU { return rocev2.PMTU(m.bits(74, 4, 4)) }

// RNRRetry is how often the receiver repeats a packet after RNR NAKs; 7: without limit.
func (m REQ) RNRRetry() uint8 { return m.bits(74, 0, 3) }

// MaxRetries is how often each side repeats a message of the communication manager, 0..15.
func (m REQ) MaxRetries() uint8 { return m.bits(75, 4, 4) }

// SRQ says that the sender's queue pair takes its receives from an SRQ.
func (m REQ) SRQ() bool { return m.bits(75, 3, 1) != 0 }

// ExtendedTransport is 0 unless the connection is XRC, 3 bits.
func (m REQ) ExtendedTransport() uint8 { return m.bits(75, 0, 3) }

// LocalGID is the address of the sender's queue pair; IPv4 addresses are unmapped.
func (m REQ) LocalGID() netip.Addr { return gid(m.Header, 80) }

// RemoteGID is the address that the sender asks.
func (m REQ) RemoteGID() netip.Addr { return gid(m.Header, 96) }

// FlowLabel is that of IPv6, 20 bits.
func (m REQ) FlowLabel() uint32 { return m.u32(112) >> 12 }

// TrafficClass is the IPv4 TOS or IPv6 traffic class.
func (m REQ) TrafficClass() uint8 { return m.u8(116) }

// HopLimit is the TTL.
func (m REQ) HopLimit() uint8 { return m.u8(117) }

// AckTimeout is the ACK timeout for the receiver's queue pair: 4.096 us * 2^n, 5 bits, 0: none.
func (m REQ) AckTimeout() uint8 { return m.bits(119, 3, 5) }

// PrivateData is the whole area of 92 bytes.
func (m REQ) PrivateData() []byte { return m.private(164, REQPrivateLen) }

// SetLocalCommID writes the communication ID.
func (m REQ) SetLocalCommID(v uint32) { m.put32(24, v) }

// SetServiceID writes what is asked for.
func (m REQ) SetServiceID(v ServiceID) { m.put64(32, uint64(v)) }

// SetCAGUID writes the sender's GUID.
func (m REQ) SetCAGUID(v uint64) { m.put64(40, v) }

// SetQPN writes the low 24 bits of v.
func (m REQ) SetQPN(v uint32) { m.put24(56, v) }

// SetResponderResources writes what the sender serves.
func (m REQ) SetResponderResources(v uint8) { m.put8(59, v) }

// SetInitiatorDepth writes what the sender wants.
func (m REQ) SetInitiatorDepth(v uint8) { m.put8(63, v) }

// SetRemoteResponseTimeout writes 5 bits.
func (m REQ) SetRemoteResponseTimeout(v uint8) { m.putBits(67, 3, 5, v) }

// SetService writes 2 bits.
func (m REQ) SetService(v Service) { m.putBits(67, 1, 2, byte(v)) }

// SetFlowControl writes the bit.
func (m REQ) SetFlowControl(on bool) { m.putBits(67, 0, 1, bit(on)) }

// SetPSN writes 24 bits.
func (m REQ) SetPSN(v rocev2.PSN) { m.put24(68, uint32(v)) }

// SetLocalResponseTimeout writes 5 bits.
func (m REQ) SetLocalResponseTimeout(v uint8) { m.putBits(71, 3, 5, v) }

// SetRetryCount writes 3 bits.
func (m REQ) SetRetryCount(v uint8) { m.putBits(71, 0, 3, v) }

// SetPKey writes the partition.
func (m REQ) SetPKey(v uint16) { m.put16(72, v) }

// SetPMTU writes 4 bits.
func (m REQ) SetPMTU(v rocev2.PMTU) { m.putBits(74, 4, 4, byte(v)) }

// SetRNRRetry writes 3 bits.
func (m REQ) SetRNRRetry(v uint8) { m.putBits(74, 0, 3, v) }

// SetMaxRetries writes 4 bits.
func (m REQ) SetMaxRetries(v uint8) { m.putBits(75, 4, 4, v) }

// SetSRQ writes the bit.
func (m REQ) SetSRQ(on bool) { m.putBits(75, 3, 1, bit(on)) }

// SetExtendedTransport writes 3 bits.
func (m REQ) SetExtendedTransport(v uint8) { m.putBits(75, 0, 3, v) }

// SetPath writes the primary path between two addresses as RoCEv2 has it: the permissive LID
// 0xFFFF on both sides and the addresses as GIDs.
func (m REQ) SetPath(local, remote netip.Addr) {
	m.put16(76, 0xFFFF)
	m.put16(78, 0xFFFF)
	putGID(m.Header, 80, local)
	putGID(m.Header, 96, remote)
}

// SetFlowLabel writes 20 bits.
func (m REQ) SetFlowLabel(v uint32) { m.put32(112, v<<12|m.u32(112)&0xFFF) }

// SetTrafficClass writes the TOS.
func (m REQ) SetTrafficClass(v uint8) { m.put8(116, v) }

// SetHopLimit writes the TTL.
func (m REQ) SetHopLimit(v uint8) { m.put8(117, v) }

// SetAckTimeout writes 5 bits.
func (m REQ) SetAckTimeout(v uint8) { m.putBits(119, 3, 5, v) }

// SetPrivateData writes p and clears the rest of the area; ErrPrivate if p is too long.
func (m REQ) SetPrivateData(p []byte) error { return m.putPrivate(164, REQPrivateLen, p) }

// gid reads 16 bytes as an address; IPv4 is in them as ::ffff:a.b.c.d (annex A17).
func gid(h Header, at int) netip.Addr { return netip.AddrFrom16([16]byte(h[at : at+16])).Unmap() }

func putGID(h Header, at int, a netip.Addr) {
	b := a.As16()
	copy(h[at:], b[:])
}

func bit(on bool) byte {
	if on {
		return 1
	}
	return 0
}
