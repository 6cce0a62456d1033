// SPDX-License-Identifier: Apache-2.0

package schemes

import (
	"fmt"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/cc/sim"
)

var precreditEntries = []Entry{
	{"fourcase-precredit", "pre-credit (S5) for the first round trip, then four-case with a window; switches with four strict queues by size", func() settings {
		return &preSettings{with: "fourcase-behind", senders: 64, wait: 1, lead: precredit.DefaultLead, age: precredit.DefaultAge, queues: precredit.Bands}
	}},
}

// preSettings are the parameters of pre-credit beside another scheme, which must have
// one pacer for each destination.
type preSettings struct {
	with        string // name of the other scheme
	budget, cap int64
	senders     int
	rtt         int64
	lead        int
	wait        int
	age, queues int
	noQueues    bool
	unknown     float64
}

func (s *preSettings) fields() []field {
	return []field{
		wordField("with", &s.with, "the scheme beside; fourcase-behind is fourcase with one-queue"),
		sizeField("budget", &s.budget, "what a receiver gives away; if not given, and at most, half of what the last hop may queue, in one queue 16 bandwidth-delay products"),
		countField("senders", &s.senders, "senders among whom the budget is divided; 0 = a bandwidth-delay product each"),
		timeField("base-rtt", &s.rtt, "round trip of those products (12us)"),
		sizeField("first", &s.cap, "how much of a flow may go on pre-credit; one bandwidth-delay product if not given"),
		countField("lead", &s.lead, "rounds for which small flows are ahead of large ones"),
		countField("wait", &s.wait, "who starts with no more than pre-credit, and goes on in proportion to ACKs: 0 nobody, 1 large flows, 2 all"),
		countField("queues", &s.queues, "data queues of switches, the smaller a flow the earlier it is served"),
		boolField("one-queue", &s.noQueues, "all flows share the switches' data queue"),
		countField("age", &s.age, "round trips for which a flow waits until its sender takes it for one of half the size; 0 = any number"),
		shareField("unknown", &s.unknown, "share of flows whose size the sender is not told: it sees 64 KB of them"),
	}
}

func (s *preSettings) scheme(name string) (sim.Scheme, error) {
	if s.senders < 0 || s.lead < 0 || s.age < 0 || s.wait < 0 || s.wait > 2 {
		return nil, fmt.Errorf("%d senders, lead %d, age %d, wait %d: the first three cannot be negative, wait is 0, 1 or 2", s.senders, s.lead, s.age, s.wait)
	}
	if s.queues < 1 || s.queues > 6 {
		return nil, fmt.Errorf("%d queues: a switch has 1 to 6 for data", s.queues)
	}
	if s.noQueues {
		s.queues = 1
		if s.with == "fourcase-behind" { // the default, and nothing is behind anything
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

// newPre puts pre-credit beside a scheme.
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
	flows     []*preFlow           // by sim.Flow.ID
}

// preFlow is a flow at its sender.
type preFlow struct {
	precredit.Flow
	reach precredit.Reach
	acked bool
}

func (x *preScheme) Name() string     { return x.name }
func (x *preScheme) Needs() sim.Needs { return x.needs }

func (x *preScheme) flow(f *sim.Flow) *preFlow {
	for len(x.flows) <= f.ID {
		x.flows = append(x.flows, nil)
	}
	if x.flows[f.ID] == nil {
		x.flows[f.ID] = &preFlow{Flow: precredit.Flow{Data: f}}
	}
	return x.flows[f.ID]
}

func (x *preScheme) NewControl(now int64, p *sim.Pacer) sim.Control {
	c := &preControl{scheme: x, packet: uint32(p.Path.PayloadBytes)}
	c.src.Lead, c.src.Step = uint32(x.s.lead), precredit.DefaultStep
	c.cap = x.s.cap
	if c.cap == 0 {
		c.cap = max(p.Path.BDPBytes(), int64(c.packet))
	}
	c.cap += int64(c.packet) - 1 - (c.cap-1)%int64(c.packet) // whole packets
	// Connecting takes no time here, and so does the answer to its grant.
	if r := x.receivers[p.Dst]; r != nil && r.connecting.Open {
		if m, send := c.src.Account.Grant(now, r.connecting); send {
			r.core.Return(now, precredit.Sender(p.Src), m)
		}
		r.connecting = precredit.Grant{}
	}
	p.CreditBytes = 0
	c.other = x.with.NewControl(now, p)
	c.save(p)
	return c
}

// preControl is the sender's half towards one destination, beside the other scheme's.
type preControl struct {
	scheme *preScheme
	other  sim.Control
	src    precredit.Source
	packet uint32
	cap    int64

	ramp precredit.Ramp
	// Least transmit times, of the stamp clocks: of this window and of the next.
	txMin, txNext, txSince int64
	// blind: data is under way, and nothing has been heard since the pacer was idle.
	blind   bool
	roundNs int64
	active  []*sim.Flow

	// What the other scheme has set.
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

// apply sets the pacer: as long as there is pre-credit for what waits, packets leave
// at line rate and pay with it. Else the other scheme's rate and window hold, or, if
// so set and nothing has been heard yet, one packet may be under way.
func (c *preControl) apply(now int64, p *sim.Pacer) {
	c.save(p)
	credit := int64(0)
	if head := c.src.Head(); head != nil {
		if n := min(int64(head.Left()), int64(c.packet)); c.src.Ready(now) >= uint32(n) {
			credit = n
		}
	}
	switch {
	case credit > 0:
		p.RateBps, p.WindowBytes, p.NeedsCredit, p.CreditBytes = 0, 0, true, credit
	case c.blind && c.waits():
		p.WindowBytes = 1 // with nothing in flight a packet may always leave
	default:
		if w, ok := c.ramp.Window(); ok && (p.WindowBytes == 0 || int64(w) < p.WindowBytes) {
			p.WindowBytes = max(int64(w), 1)
		}
	}
	c.prioritise(now, p)
}

// prioritise puts the flow that gets the next pre-credit first, then those with the
// least left, and sees to it that they are looked at again when one has waited enough to
// come nearer: its host's other flows may keep it from sending, and so from hearing.
func (c *preControl) prioritise(now int64, p *sim.Pacer) {
	head, bdp := c.src.Head(), uint64(p.Path.BDPBytes())
	age := int64(c.scheme.s.age) * p.Path.BaseRTTNs
	least := uint8(0)
	if head != nil {
		least = 1 // of one pacer the packet that is paid for must be the next
	}
	for _, f := range c.active {
		x := c.scheme.flow(f)
		if head == &x.Flow {
			p.SetPrio(f, 0)
			continue
		}
		waited := now - f.StartNs
		turn := x.reach.Turn(bdp, uint64(waited/max(p.Path.BaseRTTNs, 1)), uint64(c.scheme.s.age))
		p.SetPrio(f, max(turn, least))
		if turn > 0 && age > 0 {
			if next := now + age - waited%age; p.TimerNs == 0 || next < p.TimerNs {
				p.TimerNs = next
			}
		}
	}
}

// waits tells whether the pacer may send nothing but pre-credit blindly.
func (c *preControl) waits() bool {
	if c.scheme.s.wait != 1 {
		return c.scheme.s.wait == 2
	}
	for _, f := range c.active {
		if c.scheme.flow(f).reach.Class == precredit.Small {
			return false
		}
	}
	return true
}

var verbs = [...]precredit.Verb{sim.OpWrite: precredit.VerbWrite, sim.OpSend: precredit.VerbSend, sim.OpRead: precredit.VerbRead}

func (c *preControl) Start(now int64, p *sim.Pacer, f *sim.Flow) {
	c.restore(p)
	c.other.Start(now, p, f)
	x := c.scheme.flow(f)
	k := c.scheme.features(p, f)
	x.reach = precredit.Reach{Known: max(k.TotalBytes, k.PostedBytes), Class: precredit.Classify(k)}
	if p.InflightBytes == 0 {
		c.blind = true
		c.ramp.End()
	}
	c.active = append(c.active, f)
	if c.src.Usable(now) == 0 {
		if m, send := c.src.Report(); send {
			p.Send(nil, returnMessage(m))
		}
	}
	c.src.Push(&x.Flow, x.reach.Class, uint32(min(f.Size, c.cap)))
	c.src.Refill(now, c.packet)
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
	c.src.Drop(&c.scheme.flow(f).Flow)
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
	paid := p.NeedsCredit
	c.restore(p)
	c.other.Sent(now, p, f, d)
	x := c.scheme.flow(f)
	d.Class += x.reach.Band(uint64(p.Path.BDPBytes()), c.scheme.s.queues)
	if !d.Retransmit {
		x.reach.Sent += uint64(d.Bytes)
	}
	if head := c.src.Head(); paid && !d.Retransmit && head == &x.Flow {
		if k, ok := c.src.SrcSchedulePrecredit(now, uint32(d.Bytes)); ok {
			d.Tag, d.Unscheduled = k.Credit.Bytes, true
		}
	} else if !d.Retransmit {
		c.src.Pass(&x.Flow, uint32(d.Bytes))
	}
	c.apply(now, p)
}

func (c *preControl) Ack(now int64, p *sim.Pacer, a *sim.Ack) {
	c.restore(p)
	c.other.Ack(now, p, a)
	if a.Flow != nil {
		if c.blind && c.waits() {
			c.ramp.Begin(uint32(p.InflightBytes + a.Bytes))
		}
		c.blind = false
		c.ramp.Ack(uint32(a.Bytes), c.queueing(now, p, a), p.Path.BaseRTTNs, c.enough(p, a))
		if x := c.scheme.flow(a.Flow); !x.acked {
			x.acked = true
			c.src.Drop(&x.Flow)
		}
		if !a.Retransmit {
			c.src.SrcFixPrecredit(a.RTTNs)
		}
		if a.CreditBytes > 0 {
			c.src.Account.Credit(now, precredit.Credit{Bytes: a.Tag, Seq: c.src.Seq()})
		}
		if now-c.roundNs >= p.Path.BaseRTTNs {
			c.roundNs = now
			c.src.NextRound(now, c.packet)
		}
	}
	c.apply(now, p)
}

// queueing is the queueing delay of the way out: over the least transmit time of the
// last 10 to 20 ms, in which clocks drift by a microsecond, and no more than the round
// trip has.
func (c *preControl) queueing(now int64, p *sim.Pacer, a *sim.Ack) int64 {
	tx := a.T2 - a.T1
	if c.txSince == 0 || now-c.txSince >= 10e6 {
		c.txMin, c.txNext, c.txSince = c.txNext, tx, now
		if c.txMin == 0 {
			c.txMin = tx
		}
	}
	c.txMin, c.txNext = min(c.txMin, tx), min(c.txNext, tx)
	return min(tx-c.txMin, a.RTTNs-p.Path.BaseRTTNs)
}

// enough is the window at which the ramp ends.
func (c *preControl) enough(p *sim.Pacer, a *sim.Ack) uint32 {
	n := 2 * uint64(p.Path.BDPBytes())
	if c.rate != 0 {
		n = min(n, c.rate/8_000*uint64(a.RTTNs)/1_000_000)
	}
	return uint32(n)
}

func (c *preControl) Loss(now int64, p *sim.Pacer, f *sim.Flow, bytes int64) {
	c.restore(p)
	c.other.Loss(now, p, f, bytes)
	if m, send := c.src.Report(); send {
		p.Send(nil, returnMessage(m))
	}
	c.apply(now, p)
}

func (c *preControl) Timeout(now int64, p *sim.Pacer, f *sim.Flow) {
	c.restore(p)
	c.other.Timeout(now, p, f)
	if m, send := c.src.GiveUp(); send {
		p.Send(nil, returnMessage(m))
	}
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
	} else if r, send := c.src.Account.Grant(now, grantOf(m, c.scheme)); send {
		p.Send(nil, returnMessage(r))
		c.src.Refill(now, c.packet)
	}
	c.apply(now, p)
}

func (c *preControl) Expire(now int64, p *sim.Pacer) {
	c.restore(p)
	if p.TimerNs != 0 && p.TimerNs <= now {
		p.TimerNs = 0
		c.other.Expire(now, p)
	}
	c.apply(now, p)
}
