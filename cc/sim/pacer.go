// SPDX-License-Identifier: Apache-2.0

package sim

// Pacer lets the data packets of its flows out: of one flow, or of all flows to
// one destination. A packet may leave when all of these hold:
//
//   - RateBps: the packets before it have had their time at this rate;
//   - WindowBytes: InflightBytes is below it. With nothing in flight one packet
//     may always leave, so a window below one packet is a rate (set RateBps too);
//   - NeedsCredit: CreditBytes covers its payload, which is then taken off.
//
// Pacers of a host take turns, one packet each, those with the best Prio first.
type Pacer struct {
	// The Control sets these.

	RateBps     uint64 // 0 = no limit but the link
	WindowBytes int64  // 0 = no limit
	NeedsCredit bool
	CreditBytes int64
	TimerNs     int64 // time to call Expire, 0 = never
	// Burst is how far the pacer may run behind its rate and make up for it, in
	// nanoseconds at RateBps. 0 = never: gaps between packets are exact.
	BurstNs int64

	// The core sets these.

	// InflightBytes is payload sent and neither acknowledged nor known lost.
	InflightBytes int64
	// BacklogBytes is payload that waits to be sent for the first time, of all
	// the pacer's flows. 0 after a packet means the sender ran out of data.
	BacklogBytes int64
	// Flows is how many flows are not done.
	Flows int
	// SentWireBytes counts all bytes put on the wire so far, SentBytes the
	// payload, retransmissions included in both.
	SentWireBytes, SentBytes uint64
	// EmptyNs is when the backlog last ran empty, 0 = it has not yet. Samples of
	// packets sent at or before a time when the pacer had nothing to send prove
	// nothing about free capacity.
	EmptyNs int64

	pacerState

	Src, Dst int
	Path     Path
	// Data is for the Control's own use.
	Data any
}

// Path describes the path of a pacer's data.
type Path struct {
	// BaseRTTNs is the RTT of a full data packet and its ACK through an
	// empty network, turnaround included.
	BaseRTTNs int64
	// OneWayNs is the part of it until the data packet has arrived.
	OneWayNs int64
	LinkBps  uint64 // the sender's link
	// MinBps is the slowest link of the path.
	MinBps uint64
	Hops   int // links
	// PayloadBytes is a full packet's payload, and PacketBytes what it takes of
	// the wire.
	PayloadBytes, PacketBytes int
}

// BDPBytes is the payload in flight that fills the path for a base RTT.
func (p *Path) BDPBytes() int64 {
	wire := float64(p.MinBps) / 8e9 * float64(p.BaseRTTNs)
	return int64(wire * float64(p.PayloadBytes) / float64(p.PacketBytes))
}

// Flow is one message from a host to another.
type Flow struct {
	flowState

	// Class is the switch queue of its data: 0 is served first of the data, and
	// Config.Classes-1 last.
	Class    uint8
	Size     int64 // payload
	ID       int
	Src, Dst int
	StartNs  int64
	// Op and RegionBytes are what the sender knows beforehand (S5.3).
	RegionBytes int64
	// Tag is the scenario's own.
	Tag int64

	// EndNs is when the receiver had all of it, 0 = not yet.
	EndNs int64
	// Retransmits counts data packets sent again, Timeouts runs of the timer.
	Retransmits, Timeouts uint32

	// Ctl and Rcv are for the sender's and the receiver's own use.
	Ctl, Rcv any
	Op       Op

	flowRest
}

// Op is the verb of a flow (S5.3).
type Op uint8

// The verbs.
const (
	OpWrite Op = iota
	OpSend
	OpRead
)
