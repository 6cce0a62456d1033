// SPDX-License-Identifier: Apache-2.0

package mad

import "github.com/softroce/softroce-xdp/rocev2"

// REPPrivateLen is the room for private data in a REP, in bytes.
const REPPrivateLen = 196

// REP accepts a connection (IBTA 12.6.8, table 110). Offsets in the MAD:
//
//	24 local comm ID(32)  28 remote comm ID(32)  32 local Q_Key(32)  36 local QPN(24) reserved(8)
//	40 local EECN(24) reserved(8)  44 starting PSN(24) reserved(8)  48 responder resources(8)
//	49 initiator depth(8)  50 target ACK delay(5) failover accepted(2) end-to-end flow control(1)
//	51 RNR retry count(3) SRQ(1) reserved(4)  52 local CA GUID(64)  60 private data(196 bytes)
type REP struct{ Pair }

// ParseREP returns the view on a REP, or an error of Parse, or ErrAttr.
func ParseREP(b []byte) (REP, error) {
	h, err := parse(b, AttrREP)
	return REP{Pair{h}}, err
}

// NewREP returns a REP without contents.
func NewREP(tid uint64, local, remote uint32) REP { return REP{startPair(AttrREP, tid, local, remote)} }

// QPN is the queue pair of the sender, 24 bits.
func (m REP) QPN() uint32 { return m.u24(36) }

// PSN is with which number the receiver of this message starts to send (IBTA 12.7.31).
func (m REP) PSN() rocev2.PSN { return rocev2.PSN(m.u24(44)) }

// ResponderResources is how many READs and ATOMICs of the receiver the sender serves at a time.
func (m REP) ResponderResources() uint8 { return m.u8(48) }

// InitiatorDepth is how many READs and ATOMICs the sender will have outstanding.
func (m REP) InitiatorDepth() uint8 { return m.u8(49) }

// TargetAckDelay is the longest time until the sender's ACK: 4.096 us * 2^n, 5 bits.
func (m REP) TargetAckDelay() uint8 { return m.bits(50, 3, 5) }

// FlowControl says that the sender's send queue observes the credits of AETHs.
func (m REP) FlowControl() bool { return m.bits(50, 0, 1) != 0 }

// RNRRetry is how often the receiver repeats a packet after RNR NAKs; 7: without limit.
func (m REP) RNRRetry() uint8 { return m.bits(51, 5, 3) }

// SRQ says that the sender's queue pair takes its receives from an SRQ.
func (m REP) SRQ() bool { return m.bits(51, 4, 1) != 0 }

// CAGUID tells channel adapters apart.
func (m REP) CAGUID() uint64 { return m.u64(52) }

// PrivateData is the whole area of 196 bytes.
func (m REP) PrivateData() []byte { return m.private(60, REPPrivateLen) }

// SetQPN writes the low 24 bits of v.
func (m REP) SetQPN(v uint32) { m.put24(36, v) }

// SetPSN writes 24 bits.
func (m REP) SetPSN(v rocev2.PSN) { m.put24(44, uint32(v)) }

// SetResponderResources writes what the sender serves.
func (m REP) SetResponderResources(v uint8) { m.put8(48, v) }

// SetInitiatorDepth writes what the sender will use.
func (m REP) SetInitiatorDepth(v uint8) { m.put8(49, v) }

// SetTargetAckDelay writes 5 bits.
func (m REP) SetTargetAckDelay(v uint8) { m.putBits(50, 3, 5, v) }

// SetFlowControl writes the bit.
func (m REP) SetFlowControl(on bool) { m.putBits(50, 0, 1, bit(on)) }

// SetRNRRetry writes 3 bits.
func (m REP) SetRNRRetry(v uint8) { m.putBits(51, 5, 3, v) }

// SetSRQ writes the bit.
func (m REP) SetSRQ(on bool) { m.putBits(51, 4, 1, bit(on)) }

// SetCAGUID writes the sender's GUID.
func (m REP) SetCAGUID(v uint64) { m.put64(52, v) }

// SetPrivateData writes p and clears the rest of the area; ErrPrivate if p is too long.
func (m REP) SetPrivateData(p []byte) error { return m.putPrivate(60, REPPrivateLen, p) }
