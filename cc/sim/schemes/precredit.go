// SPDX-License-Identifier: Apache-2.0

package schemes

import (
	"fmt"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/cc/sim"
)

var precreditEntries = []Entry{
	{"fourcase-precredit", "pre-credit (S5) for the first round trip, then fourcase-low-priority; for switches with queues by size; its sender serves flows by size", func() settings {
		return defaultPre()
	}},
	{"precredit-one-queue", "pre-credit (S5) for the first round trip, then fourcase; for switches with one data queue; its sender serves flows by size", func() settings {
		s := defaultPre()
		s.oneQueue = true
		return s
	}},
}

func defaultPre() *preSettings {
	return &preSettings{with: lowPriority, senders: 64, wait: 1, bias: precredit.DefaultSmallBias, age: precredit.DefaultAge, queues: precredit.SwitchQueues}
}

// lowPriority is the scheme after the first RTT where switches have queues by size.
const lowPriority = "fourcase-low-priority"

// preSettings are the parameters of pre-credit in addition to another scheme, which must have
// one pacer for each destination.
type preSettings struct {
	with        string // name of the other scheme
	budget, cap int64
	senders     int
	rtt         int64
	bias        int
	wait        int
	age, queues int
	oneQueue    bool
	unknown     float64
}

func (s *preSettings) fields() []field {
	return []field{
		wordField("with", &s.with, "the scheme after the first RTT; fourcase-low-priority is fourcase with one-queue"),
		sizeField("budget", &s.budget, "what a receiver gives away; if not given, and at most, half of what the last hop may queue, in one queue 16 bandwidth-delay products"),
		countField("senders", &s.senders, "senders among whom the budget is divided; 0 = a bandwidth-delay product each"),
		timeField("base-rtt", &s.rtt, "round trip of those products (12us)"),
		sizeField("first", &s.cap, "how much of a flow may go on pre-credit; one bandwidth-delay product if not given"),
		countField("small-bias", &s.bias, "rounds for which small flows are ahead of large ones"),
		countField("wait", &s.wait, "who starts with no more than pre-credit, and goes on in proportion to ACKs: 0 nobody, 1 large flows, 2 all"),
		countField("queues", &s.queues, "data queues of switches, the smaller a flow the earlier it is served"),
		boolField("one-queue", &s.oneQueue, "all flows share the switches' data queue"),
		countField("age", &s.age, "round trips for which a flow waits until its sender takes it for one of half the size; 0 = any number"),
		shareField("unknown", &s.unknown, "share of flows whose size the sender is not told: it sees 64 KB of them"),
	}
}

func (s *preSettings) scheme(name string) (sim.Scheme, error) {
	if s.senders < 0 || s.bias < 0 || s.age < 0 || s.wait < 0 || s.wait > 2 {
		return nil, fmt.Errorf("%d senders, small-bias %d, age %d, wait %d: the first three cannot be negative, wait is 0, 1 or 2", s.senders, s.bias, s.age, s.wait)
	}
	if s.queues < 1 || s.queues > 6 {
		return nil, fmt.Errorf("%d queues: a switch has 1 to 6 for data", s.queues)
	}
	if s.oneQueue {
		s.queues = 1
		if s.with == lowPriority { // the default, and no data has a higher priority
			s.with = "fourcase"
		}
	}
	if !(s.unknown >= 0 && s.unknown <= 1) {
		return nil, fmt.Errorf("unknown %v: it is a share from 0 to 1", s.unknown)
	}
	with, err := New(s.with)
	if err != nil {
		return nil, err
	}
	return newPre(name, *s, with)
}

// newPre adds pre-credit to a scheme.
func newPre(name string, s preSettings, with sim.Scheme) (sim.Scheme, error) {
	needs := with.Needs()
	if needs.Scope != sim.PerDestination {
		return nil, fmt.Errorf("pre-credit needs a scheme with one pacer for each destination, and %s has one for each flow", with.Name())
	}
	s.queues = max(s.queues, 1)
	needs.Classes = max(needs.Classes, s.queues)
	override(&s.rtt, 12_000)
	return &preScheme{name: name, s: s, with: with, needs: needs, receivers: map[int]*preReceiver{}}, nil
}

type preScheme struct {
	name      string
	s         preSettings
	with      sim.Scheme
	needs     sim.Needs
	receivers map[int]*preReceiver // looked up, never walked
	flows     []*preFlow           // flows by sim.Flow.ID
}

// preFlow is a flow at its sender.
type preFlow struct {
	precredit.Flow
	size    precredit.FlowSize
	blocked bool // the flow sends nothing until the first feedback
}

func (x *preScheme) Name() string     { return x.name }
func (x *preScheme) Needs() sim.Needs { return x.needs }

func (x *preScheme) flow(f *sim.Flow) *preFlow { return x.flows[f.ID] }

// add makes the state of a flow that starts.
func (x *preScheme) add(f *sim.Flow, packet uint32) *preFlow {
	for len(x.flows) <= f.ID {
		x.flows = append(x.flows, nil)
	}
	if x.flows[f.ID] == nil {
		x.flows[f.ID] = &preFlow{Flow: precredit.Flow{Data: f, Packet: packet}}
	}
	return x.flows[f.ID]
}

// preMaxWait is the longest that a flow waits in the first flight, as in the NIC.
const preMaxWait = 10_000_000

var preBound = [...]precredit.Bound{precredit.BoundNone, precredit.BoundLarge, precredit.BoundAll} // by preSettings.wait

func (x *preScheme) NewControl(now int64, p *sim.Pacer) sim.Control {
	packet := uint32(p.Path.PayloadBytes)
	c := &preControl{scheme: x, packet: packet, pacer: p}
	end := &precredit.Endpoint{} // the endpoint of a host that receives nothing
	if r := x.receivers[p.Src]; r != nil {
		end = r.end
	}
	c.peer = end.NewPeer(precredit.SenderID(p.Dst), c, precredit.SenderParams{
		LinkBps: p.Path.MinBps, RTTNs: p.Path.BaseRTTNs, BDPBytes: uint32(p.Path.BDPBytes()), FlowBytes: uint32(x.s.cap),
		MaxWaitNs: preMaxWait, SmallBias: uint32(x.s.bias), AgingStep: precredit.DefaultAgingStep, Bound: preBound[x.s.wait],
	})
	c.peer.TurnOn()
	// Connecting takes no time here, and so does the answer to its grant.
	if r := x.receivers[p.Dst]; r != nil && r.connecting.Open {
		if m, send := c.peer.Sender.Grant(now, r.connecting); send {
			r.core.Return(now, precredit.SenderID(p.Src), m)
		}
		r.connecting = precredit.Grant{}
	}
	p.CreditBytes = 0
	c.other = x.with.NewControl(now, p)
	c.save(p)
	return c
}

// preControl is the sender's half towards one destination, next to the other scheme's.
type preControl struct {
	scheme *preScheme
	other  sim.Control
	peer   *precredit.Peer
	pacer  *sim.Pacer
	packet uint32
	active []*sim.Flow

	// unpaidNs is when the other scheme's rate has allowed all that left on pre-credit.
	unpaidNs int64

	// The fields below have the values that the other scheme has set.
	rate    uint64
	window  int64
	burst   int64
	timerNs int64
}

// restore shows the other scheme the pacer as it left it.
func (c *preControl) restore(p *sim.Pacer) {
	p.RateBps, p.WindowBytes, p.BurstNs, p.NeedsCredit, p.TimerNs = c.rate, c.window, c.burst, false, c.timerNs
}

func (c *preControl) save(p *sim.Pacer) {
	c.rate, c.window, c.burst, c.timerNs = p.RateBps, p.WindowBytes, p.BurstNs, p.TimerNs
}

// apply sets the pacer: as long as there is pre-credit for the next packet, it leaves at line
// rate. Else rate and window of the other scheme hold, from when the rate has allowed what
// left ahead of it, or, if all flows are blocked in the first flight, one packet may be in flight.
func (c *preControl) apply(now int64, p *sim.Pacer) {
	c.save(p)
	head := c.peer.Next(now, c.AheadOfRate(now))
	switch {
	case head != nil:
		p.RateBps, p.WindowBytes, p.NeedsCredit, p.CreditBytes = 0, 0, true, int64(c.packet)
	case !c.mayStart(now):
		p.WindowBytes = 1 // with nothing in flight a packet may always leave
	case c.unpaidNs > now:
		p.NeedsCredit, p.CreditBytes = true, 0 // nothing leaves until then
		if p.TimerNs == 0 || c.unpaidNs < p.TimerNs {
			p.TimerNs = c.unpaidNs
		}
	default:
		if w, ok := c.peer.Window(); ok && (p.WindowBytes == 0 || int64(w) < p.WindowBytes) {
			p.WindowBytes = max(int64(w), 1)
		}
	}
	c.prioritise(now, p, head)
	if at := c.peer.Deadline(); at != 0 && (p.TimerNs == 0 || at < p.TimerNs) {
		p.TimerNs = max(at, now)
	}
}

// InFlight implements precredit.Port.
func (c *preControl) InFlight() (bytes uint64, busy bool) {
	return uint64(c.pacer.InflightBytes), c.pacer.InflightBytes > 0
}

// AheadOfRate implements precredit.Port.
func (c *preControl) AheadOfRate(now int64) uint32 { return precredit.BDP(c.rate, c.unpaidNs-now) }

// Apply implements precredit.Port. The pacer asks for the window and for the flows that may send (apply).
func (c *preControl) Apply(uint32, []*precredit.Flow) {}

// SendData implements precredit.Port. Packets are taken by the pacer.
func (c *preControl) SendData(int64, *precredit.Flow) precredit.Result { return precredit.ResultFull }

// SendReturn implements precredit.Port.
func (c *preControl) SendReturn(m precredit.Return) { c.pacer.Send(nil, returnMessage(m)) }

// mayStart reports whether any flow that has data may send it without pre-credit.
func (c *preControl) mayStart(now int64) (may bool) {
	data := false
	for _, f := range c.active {
		x := c.scheme.flow(f)
		if x.size.SentBytes >= uint64(f.Size) {
			continue
		}
		ok, _ := c.peer.MayStart(now, &x.Flow)
		x.blocked, data, may = !ok, true, may || ok
	}
	return may || !data
}

// prioritise puts the flow that gets the next pre-credit first, then those with the
// least left, and sees to it that they are looked at again when one has waited enough to
// come nearer: its host's other flows may keep it from sending, and so from feedback.
func (c *preControl) prioritise(now int64, p *sim.Pacer, head *precredit.Flow) {
	bdp := uint64(p.Path.BDPBytes())
	age := int64(c.scheme.s.age) * p.Path.BaseRTTNs
	least := uint8(0)
	if head != nil {
		least = 1 // of one pacer the packet on pre-credit must be the next
	}
	for _, f := range c.active {
		x := c.scheme.flow(f)
		if head == &x.Flow {
			p.SetPrio(f, 0)
			continue
		}
		waited := now - f.StartNs
		rank := x.size.Rank(bdp, uint64(waited/max(p.Path.BaseRTTNs, 1)), uint64(c.scheme.s.age))
		if x.blocked {
			p.SetPrio(f, precredit.Ranks-1) // after those that may send
		} else {
			p.SetPrio(f, max(rank, least))
		}
		if rank > 0 && age > 0 {
			if next := now + age - waited%age; p.TimerNs == 0 || next < p.TimerNs {
				p.TimerNs = next
			}
		}
	}
}

var verbs = [...]precredit.Verb{sim.OpWrite: precredit.VerbWrite, sim.OpSend: precredit.VerbSend, sim.OpRead: precredit.VerbRead}

func (c *preControl) Start(now int64, p *sim.Pacer, f *sim.Flow) {
	c.restore(p)
	c.other.Start(now, p, f)
	x := c.scheme.add(f, c.packet)
	k := c.scheme.features(p, f)
	c.peer.Post(now, &x.Flow, precredit.Work{First: true, Bytes: uint64(f.Size), Features: k})
	x.size = precredit.FlowSize{KnownBytes: max(k.TotalBytes, k.PostedBytes), Class: x.Class()}
	c.active = append(c.active, f)
	c.apply(now, p)
}

// features are what the sender knows of a flow.
func (x *preScheme) features(p *sim.Pacer, f *sim.Flow) precredit.Features {
	k := precredit.Features{
		TotalBytes: uint64(f.Size), PostedBytes: uint64(f.Size), Verb: verbs[f.Op],
		RegionBytes: uint64(f.RegionBytes), BDPBytes: uint64(p.Path.BDPBytes()),
	}
	if f.RegionBytes == 0 {
		k.RegionBytes = k.TotalBytes
	}
	if (jitter(f.ID, 0)+1)/2 < x.s.unknown {
		k.TotalBytes, k.PostedBytes, k.RegionBytes = 0, min(k.PostedBytes, 64<<10), 1<<30
	}
	return k
}

func (c *preControl) Done(now int64, p *sim.Pacer, f *sim.Flow) {
	c.restore(p)
	c.other.Done(now, p, f)
	c.peer.End(&c.scheme.flow(f).Flow)
	c.scheme.flows[f.ID] = nil
	for i, g := range c.active {
		if g == f {
			c.active = append(c.active[:i], c.active[i+1:]...)
			break
		}
	}
	c.apply(now, p)
}

func (c *preControl) Sent(now int64, p *sim.Pacer, f *sim.Flow, d *sim.Data) {
	ahead := p.NeedsCredit
	c.restore(p)
	c.other.Sent(now, p, f, d)
	x := c.scheme.flow(f)
	d.Class += x.size.QueueIndex(uint64(p.Path.BDPBytes()), c.scheme.s.queues)
	if !d.Retransmit {
		x.size.SentBytes += uint64(d.Bytes)
	}
	if k, ok := c.peer.Sent(now, &x.Flow, uint32(d.Bytes), ahead, d.Retransmit); ok {
		d.Tag, d.Unscheduled = k.Bytes, true
	}
	if ahead && p.RateBps != 0 {
		wire := uint64(d.Bytes) + uint64(p.Path.PacketBytes-p.Path.PayloadBytes)
		c.unpaidNs = max(c.unpaidNs, now) + int64(wire*8e9/p.RateBps)
	}
	c.apply(now, p)
}

func (c *preControl) Ack(now int64, p *sim.Pacer, a *sim.Ack) {
	c.restore(p)
	c.other.Ack(now, p, a)
	if a.Flow != nil {
		answer := precredit.Answer{
			Credit: precredit.Credit{Bytes: a.Tag, Seq: c.peer.Seq()}, HasCredit: a.CreditBytes > 0,
			InFlight: uint64(p.InflightBytes + a.Bytes), RateBps: p.RateBps,
		}
		if !a.Retransmit {
			answer.RTTNs = a.RTTNs
		}
		c.peer.Answer(now, &c.scheme.flow(a.Flow).Flow, answer)
	}
	c.apply(now, p)
}

func (c *preControl) Loss(now int64, p *sim.Pacer, f *sim.Flow, bytes int64) {
	c.restore(p)
	c.other.Loss(now, p, f, bytes)
	c.peer.Loss(now)
	c.apply(now, p)
}

func (c *preControl) Timeout(now int64, p *sim.Pacer, f *sim.Flow) {
	c.restore(p)
	c.other.Timeout(now, p, f)
	c.peer.Timeout(true)
	c.apply(now, p)
}

func (c *preControl) CNP(now int64, p *sim.Pacer, f *sim.Flow) {
	c.restore(p)
	c.other.CNP(now, p, f)
	c.apply(now, p)
}

func (c *preControl) Message(now int64, p *sim.Pacer, f *sim.Flow, m *sim.Message) {
	c.restore(p)
	if m.Kind != sim.MsgGrant {
		c.other.Message(now, p, f, m)
	} else {
		c.peer.Grant(now, grantOf(m, c.scheme))
	}
	c.apply(now, p)
}

func (c *preControl) Expire(now int64, p *sim.Pacer) {
	c.restore(p)
	if p.TimerNs != 0 && p.TimerNs <= now {
		p.TimerNs = 0
		c.other.Expire(now, p)
	}
	c.peer.Expire(now)
	c.apply(now, p)
}
