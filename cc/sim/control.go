// SPDX-License-Identifier: Apache-2.0

package sim

// This file and pacer.go are the contract between the simulator and the
// congestion control schemes. What crosses it:
//
//   - times are int64 nanoseconds. `now` is the simulation's time, which never
//     jumps, as a host's monotonic clock does not. T1, T2, T3 are readings of the
//     hosts' stamp clocks, which have offsets, drift and steps: only differences
//     within one host mean something.
//   - rates are bits per second and count what the wire carries: payload, all
//     headers, FCS, preamble and gap. A pacer at the link's rate fills the link.
//   - windows, credit and flow sizes are bytes of payload.
//   - everything runs on one goroutine. A pointer handed to a method is valid
//     until the method returns, except *Pacer and *Flow, which stay valid as long
//     as they live (Start to Done).

// Scheme is one congestion control method with its parameters. One value serves
// one run, so it may keep what is shared by the controls of a host (keyed by
// Pacer.Src or by the host number of NewReceiver). Everything that it does must
// follow from the calls it gets: no clock, no goroutine, no order of a map.
type Scheme interface {
	// Name is how tables and plots call the scheme: "dcqcn", "fourcase".
	Name() string
	// Needs says what the scheme asks of switches and hosts. It is called once,
	// before anything else.
	Needs() Needs
	// NewControl makes the sender's side of one pacer. p.Path, p.Src and p.Dst
	// are set. It sets the rate, window or credit to start with.
	NewControl(now int64, p *Pacer) Control
	// NewReceiver makes the receiver's side of one host, nil = none: data is
	// acknowledged and nothing else happens.
	NewReceiver(host int, out Out) Receiver
}

// Control is the sender's side of one pacer: of one flow, or of all flows from one
// host to one other (Needs.Scope). It acts by setting the pacer's public fields.
// After each call the core looks at them again. Embed NoControl for what a scheme
// does not need.
type Control interface {
	// Start: a flow has data to send. For a shared pacer it is called per flow.
	Start(now int64, p *Pacer, f *Flow)
	// Done: the last byte of a flow was acknowledged.
	Done(now int64, p *Pacer, f *Flow)
	// Sent is called when the NIC has picked a data packet and before it is
	// stamped. It may set the fields of d that say so.
	Sent(now int64, p *Pacer, f *Flow, d *Data)
	// Ack: feedback came, also if it acknowledges nothing new.
	Ack(now int64, p *Pacer, a *Ack)
	// Loss: a NAK (go-back-N) or SACK gap (selective) reports lost packets.
	// bytes is what goes out again. It is called once for each recovery.
	Loss(now int64, p *Pacer, f *Flow, bytes int64)
	// Timeout: the retransmission timer ran out.
	Timeout(now int64, p *Pacer, f *Flow)
	// CNP: a congestion notification packet (opcode 0x81) came.
	CNP(now int64, p *Pacer, f *Flow)
	// Message: the peer's Receiver sent m, e.g. a credit or grant. f is the flow
	// it is about, nil if that flow has ended or if m is about none.
	Message(now int64, p *Pacer, f *Flow, m *Message)
	// Expire: p.TimerNs has come. It is 0 again when this is called.
	Expire(now int64, p *Pacer)
}

// Receiver is the receiver's side of one host. Embed NoReceiver for what a scheme
// does not need.
type Receiver interface {
	// Connect: a queue pair from host src was connected. Connecting costs no
	// time in the simulation and comes before the first flow of that pair of hosts
	// (Net.Connect; else just before the first flow starts). The grant returned,
	// in bytes, is at once in Pacer.CreditBytes of a PerDestination pacer, or in
	// that of the first flow.
	Connect(now int64, src int) (grant int64)
	// Data: a data packet arrived, in order or not. Set r to shape the ACK.
	Data(now int64, f *Flow, d *Data, r *Reply)
	// Message: the peer's Control sent m (Pacer.Send).
	Message(now int64, src int, f *Flow, m *Message)
	// Done: all data of the flow has arrived.
	Done(now int64, f *Flow)
	// Expire: the timer set by Out.WakeAt for this flow has come, or, with f nil,
	// that of the host.
	Expire(now int64, f *Flow)
}

// Out is what a Receiver can do. The core implements it; tests may fake it.
type Out interface {
	// CNP sends a congestion notification packet to the flow's sender.
	CNP(f *Flow)
	// Send sends a message to the Control of the flow's sender.
	Send(f *Flow, m Message)
	// SendTo sends a message about no flow, to the Control of the pacer from host
	// src to this one. With Scope PerFlow that is each flow's pacer.
	SendTo(src int, m Message)
	// WakeAt asks for Expire(f) at a time; a second call replaces the first, 0
	// cancels. f nil is the host's own timer. It may be called from Expire.
	WakeAt(f *Flow, ns int64)
	// LinkBps is the rate of the host's link, and BufferBytes the receive buffer
	// that its last hop may fill (the egress port's share of the switch).
	LinkBps() uint64
	BufferBytes() int64
	// Path is the path of the flow's data, as its sender sees it.
	Path(f *Flow) *Path
}

// Needs is what a scheme asks of switches and hosts.
type Needs struct {
	// Scope: what shares a pacer and its Control.
	Scope Scope
	// Transport, TransportAny = the scenario's choice.
	Transport Transport
	// ECN gives marking thresholds for a port of some rate; nil = no marking.
	ECN func(linkBps uint64) ECN
	// INT: switches stamp each data packet with a Hop.
	INT bool
	// PFC: the scheme counts on lossless classes. The scenario may override it.
	PFC bool
	// Classes: data queues that it wants of a port, by Data.Class, the lower ones
	// served first; 0 = one. The scenario may override it. A scheme that wants
	// several sets Data.Class itself.
	Classes int
	// CreditQueue gives MsgCredit packets their own queue at every port, nil =
	// they travel with ACKs.
	CreditQueue *CreditQueue
	// DropUnscheduledBytes: a port drops data marked Data.Unscheduled when its
	// queue holds more than this (Aeolus). 0 = never earlier than others.
	DropUnscheduledBytes int64
	// Hello: before the first data a stamped idle exchange (HELLO, HELLO_ACK)
	// measures the path; the outcome is an Ack with Probe set. See Net.Connect.
	Hello bool
	// HeaderBytes and AckHeaderBytes are carried by every data packet and ACK
	// beyond plain RoCEv2: 40 for the stamp option of S1, 42 for HPCC's INT.
	HeaderBytes    int
	AckHeaderBytes int
}

// Scope is what shares a pacer.
type Scope uint8

// The scopes.
const (
	PerFlow        Scope = iota // each flow has its own
	PerDestination              // all flows from a host to another (S1.9)
)

// Transport is how loss is repaired.
type Transport uint8

// The transports.
const (
	TransportAny Transport = iota
	GoBackN                // a gap is NAKed once and everything after it is sent again
	Selective              // the receiver keeps what came, only gaps are sent again
)

// ECN is RED marking on the instantaneous queue: none up to Kmin, all from Kmax,
// in between with a probability that rises linearly to Pmax.
type ECN struct {
	KminBytes, KmaxBytes int64
	Pmax                 float64
}

// CreditQueue is a port's queue for credit packets: a token bucket that passes
// Share of the link's rate, and drops credits beyond LimitPackets.
type CreditQueue struct {
	Share        float64 // 0 = so much that a full data packet for each credit fills the reverse path
	LimitPackets int
}

// Data is a data packet as the schemes see it.
type Data struct {
	PSN        uint32 // packet number within the flow, from 0
	Bytes      int32  // payload
	Last       bool   // the flow's last packet
	Retransmit bool   // the packet was on the wire before
	CE         bool   // receiver: marked by a switch

	// Set by Control.Sent, seen by Receiver.Data.

	Tag         uint32 // carried unseen, e.g. the number of the credit used
	Class       uint8  // switch queue; preset to Flow.Class
	Unscheduled bool   // sent without credit: see DropUnscheduledBytes
}

// Reply is what a Receiver adds to the ACK of a packet.
type Reply struct {
	CreditBytes int64  // Ack.CreditBytes; adds up if ACKs are coalesced
	Tag         uint32 // Ack.Tag
	Now         bool   // the ACK is sent at once, without coalescing
}

// Ack is feedback from the receiver, as the sender sees it.
type Ack struct {
	Flow *Flow // nil if Probe
	// Probe: the echo of a HELLO or of Pacer.Probe, not of data. Its stamps count
	// and the rest is zero. Idle: no data of the pacer was in flight.
	Probe, Idle bool

	PSN        uint32 // the packet that it answers, the latest if coalesced
	Bytes      int64  // payload newly acknowledged
	Packets    uint32 // data packets that came since the last ACK, 1 unless coalesced
	CE         uint32 // number of these data packets that were marked
	Duplicate  bool   // the ACK acknowledges nothing new
	Retransmit bool   // answers a retransmitted packet: do not time it (Karn)

	// T1 is when the data packet left and T3 when this ACK came, by the sender's
	// stamp clock. T2 is when the data came and T2Out when the ACK left, by the
	// receiver's: T2Out-T2 is its turnaround.
	T1, T2, T2Out, T3 int64
	RTTNs             int64 // T3-T1 by a clock that is never set
	Hops              uint8 // links that the data packet took
	INT               []Hop // one for each switch it passed, if Needs.INT

	CreditBytes int64 // sum of Reply.CreditBytes
	Tag         uint32
}

// Hop is the in-band telemetry of one switch, taken as the packet left its queue.
type Hop struct {
	QueueBytes int64  // bytes that stay in the egress queue behind the packet
	TxBytes    uint64 // sent by the port so far
	TsNs       int64  // the switch's clock
	RateBps    uint64 // rate of the port
}

// MsgKind is the kind of a control message.
type MsgKind uint8

// The kinds. Those from MsgScheme on belong to the scheme.
const (
	MsgCredit  MsgKind = iota + 1 // ExpressPass credit: takes the credit queue
	MsgRequest                    // sender: I have data
	MsgStop                       // sender: I have no more
	MsgGrant                      // CREDIT_GRANT of S5
	MsgReturn                     // CREDIT_RETURN of S5
	MsgScheme
)

// Message is a control packet of a scheme. It travels as a real packet of
// ControlWireBytes (a credit: CreditWireBytes) in the class of ACKs, or in the
// credit queue, and can be lost.
type Message struct {
	Kind  MsgKind
	Seq   uint32
	Bytes int64
	Aux   int64
}

// NoControl answers every call of Control with nothing.
type NoControl struct{}

func (NoControl) Start(int64, *Pacer, *Flow)             {}
func (NoControl) Done(int64, *Pacer, *Flow)              {}
func (NoControl) Sent(int64, *Pacer, *Flow, *Data)       {}
func (NoControl) Ack(int64, *Pacer, *Ack)                {}
func (NoControl) Loss(int64, *Pacer, *Flow, int64)       {}
func (NoControl) Timeout(int64, *Pacer, *Flow)           {}
func (NoControl) CNP(int64, *Pacer, *Flow)               {}
func (NoControl) Message(int64, *Pacer, *Flow, *Message) {}
func (NoControl) Expire(int64, *Pacer)                   {}

// NoReceiver answers every call of Receiver with nothing.
type NoReceiver struct{}

func (NoReceiver) Connect(int64, int) int64            { return 0 }
func (NoReceiver) Data(int64, *Flow, *Data, *Reply)    {}
func (NoReceiver) Message(int64, int, *Flow, *Message) {}
func (NoReceiver) Done(int64, *Flow)                   {}
func (NoReceiver) Expire(int64, *Flow)                 {}

var (
	_ Control  = NoControl{}
	_ Receiver = NoReceiver{}
)
