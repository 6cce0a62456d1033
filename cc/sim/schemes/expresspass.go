// SPDX-License-Identifier: Apache-2.0

package schemes

import (
	"github.com/softroce/softroce-xdp/cc/sim"
	"github.com/softroce/softroce-xdp/cc/sim/published"
)

var expresspassEntries = []Entry{
	{"expresspass", "ExpressPass: data waits for credits that switches rate-limit", func() settings {
		return &xpassSettings{creditLimit: 8}
	}},
	{"aeolus", "ExpressPass with a first round trip of packets that switches drop first", func() settings {
		return &xpassSettings{creditLimit: 8, unscheduled: true, drop: 6_000}
	}},
}

type xpassSettings struct {
	creditLimit        int
	packet             int64
	alpha, winit, loss float64
	retry              int64
	unscheduled        bool
	drop, first        int64
}

func (s *xpassSettings) fields() []field {
	return []field{
		countField("credit-queue", &s.creditLimit, "credits that a port holds"),
		sizeField("packet", &s.packet, "wire bytes that a credit brings; the path's full packet if not given"),
		shareField("alpha", &s.alpha, "share of the full credit rate that a flow starts with (0.5)"),
		shareField("w", &s.winit, "aggressiveness of a new flow (1/16)"),
		shareField("target-loss", &s.loss, "share of credits lost that counts as none (0.125)"),
		timeField("retry", &s.retry, "a request without answer is repeated after this (100us)"),
		boolField("unscheduled", &s.unscheduled, "fill the first round trip with packets that may be dropped"),
		sizeField("drop-above", &s.drop, "queue above which switches drop them"),
		sizeField("first", &s.first, "how much of a flow goes so; one bandwidth-delay product if not given"),
	}
}

func (s *xpassSettings) params(linkBps float64, p *sim.Path) published.ExpressPassParams {
	packet := p.PacketBytes
	if s.packet != 0 {
		packet = int(s.packet)
	}
	x := published.ExpressPassDefault(linkBps, published.CreditPacketBytes, packet)
	override(&x.InitialShare, s.alpha)
	override(&x.WInit, s.winit)
	override(&x.TargetLoss, s.loss)
	override(&x.RetryNs, s.retry)
	return x
}

func (s *xpassSettings) scheme(name string) (sim.Scheme, error) {
	p := s.params(100e9, &typicalPath)
	return &xpassScheme{name: name, s: *s}, p.Validate()
}

type xpassScheme struct {
	name   string
	s      xpassSettings
	params perPath[published.ExpressPassParams]
}

func (x *xpassScheme) Name() string { return x.name }

func (x *xpassScheme) Needs() sim.Needs {
	n := sim.Needs{
		Transport:   sim.Selective,
		CreditQueue: &sim.CreditQueue{LimitPackets: x.s.creditLimit},
	}
	if x.s.packet != 0 {
		n.CreditQueue.Share = published.CreditShare(published.CreditPacketBytes, int(x.s.packet))
	}
	if x.s.unscheduled {
		n.DropUnscheduledBytes = x.s.drop
	}
	return n
}

func (x *xpassScheme) of(p *sim.Path) *published.ExpressPassParams {
	return x.params.get(p, func(p *sim.Path) published.ExpressPassParams { return x.s.params(float64(p.LinkBps), p) })
}

func (x *xpassScheme) NewControl(now int64, p *sim.Pacer) sim.Control {
	p.NeedsCredit = true
	return &xpassControl{scheme: x, sender: *published.NewCreditSender(x.of(&p.Path)), send: p.Send, probe: p.Probe}
}

func (x *xpassScheme) NewReceiver(host int, out sim.Out) sim.Receiver {
	return &xpassReceiver{scheme: x, out: out}
}

// xpassControl is the sender of one flow.
type xpassControl struct {
	sim.NoControl
	scheme      *xpassScheme
	sender      published.CreditSender
	send        func(*sim.Flow, sim.Message)
	acked       int64
	unscheduled int64    // bytes that may go without credit
	scheduled   bool     // a packet went for a credit
	probe       func()   // sends a probe behind the last unscheduled packet
	resendAt    int64    // then what has no answer is lost, 0 = not known
	tags        []uint32 // tags of the credits in Pacer.CreditBytes, in order
}

// left is how many packets have neither been sent nor have a credit.
func (c *xpassControl) left(p *sim.Pacer, f *sim.Flow) int {
	bytes := f.Size - c.acked - p.InflightBytes - p.CreditBytes
	size := int64(p.Path.PayloadBytes)
	return int((max(bytes, 0) + size - 1) / size)
}

func (c *xpassControl) ask(p *sim.Pacer, f *sim.Flow, a published.CreditAsk) {
	switch a {
	case published.AskCredits:
		c.send(f, sim.Message{Kind: sim.MsgRequest, Bytes: int64(c.left(p, f))})
	case published.AskCreditStop:
		c.send(f, sim.Message{Kind: sim.MsgStop})
	}
	p.TimerNs = c.resendAt
	if t := c.sender.Timer(); t != published.Never && (p.TimerNs == 0 || t < p.TimerNs) {
		p.TimerNs = t
	}
}

func (c *xpassControl) Start(now int64, p *sim.Pacer, f *sim.Flow) {
	p.Data = f
	if c.scheme.s.unscheduled {
		c.unscheduled = p.Path.BDPBytes()
		override(&c.unscheduled, c.scheme.s.first)
		c.unscheduled = min(c.unscheduled, f.Size)
	}
	// The request tells of the whole flow: what goes without credit may be lost.
	c.ask(p, f, c.sender.Start(now))
	p.CreditBytes = c.unscheduled
}

func (c *xpassControl) Done(now int64, p *sim.Pacer, f *sim.Flow) { p.TimerNs = 0 }

func (c *xpassControl) Sent(now int64, p *sim.Pacer, f *sim.Flow, d *sim.Data) {
	if c.unscheduled > 0 {
		d.Unscheduled = true
		c.unscheduled = max(c.unscheduled-int64(d.Bytes), 0)
		if c.unscheduled == 0 {
			c.probe()
		}
		return
	}
	c.scheduled = true
	if len(c.tags) > 0 {
		d.Tag = c.tags[0]
		c.tags = c.tags[:copy(c.tags, c.tags[1:])]
	}
}

// Ack of a probe: what was sent before it has arrived or is lost, except that the
// probe overtakes data, by what a queue of unscheduled packets may hold at each
// hop. If packets with credit have followed, their ACKs will tell.
func (c *xpassControl) Ack(now int64, p *sim.Pacer, a *sim.Ack) {
	c.acked += a.Bytes
	if a.Probe && !c.scheduled {
		queue := float64(c.scheme.s.drop) + float64(p.Path.PacketBytes)
		c.resendAt = now + int64(2*float64(p.Path.Hops)*queue*8e9/float64(p.Path.MinBps))
		c.ask(p, p.Data.(*sim.Flow), published.AskNoCredit)
	}
}

func (c *xpassControl) Message(now int64, p *sim.Pacer, f *sim.Flow, m *sim.Message) {
	if m.Kind != sim.MsgCredit || f == nil {
		return
	}
	// The first credit ends the time without.
	p.CreditBytes -= c.unscheduled
	c.unscheduled = 0
	use, ask := c.sender.Credit(now, c.left(p, f))
	if use {
		p.CreditBytes += int64(p.Path.PayloadBytes)
		c.tags = append(c.tags, m.Seq+1)
	}
	c.ask(p, f, ask)
}

func (c *xpassControl) Loss(now int64, p *sim.Pacer, f *sim.Flow, bytes int64) {
	if c.left(p, f) > 0 {
		c.ask(p, f, c.sender.Start(now))
	}
}

func (c *xpassControl) Timeout(now int64, p *sim.Pacer, f *sim.Flow) { c.Loss(now, p, f, 0) }

func (c *xpassControl) Expire(now int64, p *sim.Pacer) {
	f := p.Data.(*sim.Flow)
	ask := c.sender.Expire(now, c.left(p, f))
	if c.resendAt != 0 && now >= c.resendAt {
		c.resendAt = 0
		if !c.scheduled && p.InflightBytes > 0 {
			p.Resend(f)
			ask = max(ask, c.sender.Start(now))
		}
	}
	c.ask(p, f, ask)
}

// jitter is a number in [-1, 1) that looks random and depends on the flow and the
// time alone.
func jitter(flow int, now int64) float64 {
	z := uint64(flow)<<40 ^ uint64(now)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(int64(z)) / (1 << 63)
}

// xpassReceiver is the receiver of a host's flows. It knows a flow's last packet
// when it has all of it, so it needs no stop for that.
type xpassReceiver struct {
	sim.NoReceiver
	scheme *xpassScheme
	out    sim.Out
}

func (r *xpassReceiver) credits(f *sim.Flow) *published.CreditReceiver {
	c, ok := f.Rcv.(*published.CreditReceiver)
	if !ok {
		path := *r.out.Path(f)
		path.LinkBps = r.out.LinkBps()
		c = published.NewCreditReceiver(r.scheme.of(&path), path.BaseRTTNs)
		f.Rcv = c
	}
	return c
}

func (r *xpassReceiver) Message(now int64, src int, f *sim.Flow, m *sim.Message) {
	if f == nil {
		return
	}
	c := r.credits(f)
	switch m.Kind {
	case sim.MsgRequest:
		if !c.Running() {
			c.Request(now, int(m.Bytes))
			r.Expire(now, f)
		}
	case sim.MsgStop:
		c.Stop()
		r.out.WakeAt(f, 0)
	}
}

func (r *xpassReceiver) Expire(now int64, f *sim.Flow) {
	if f == nil {
		return
	}
	c := r.credits(f)
	if !c.Running() {
		return
	}
	seq, next := c.Credit(now, jitter(f.ID, now))
	r.out.Send(f, sim.Message{Kind: sim.MsgCredit, Seq: seq})
	r.out.WakeAt(f, next)
}

func (r *xpassReceiver) Data(now int64, f *sim.Flow, d *sim.Data, reply *sim.Reply) {
	if d.Tag > 0 {
		r.credits(f).Data(now, d.Tag-1)
	}
}

func (r *xpassReceiver) Done(now int64, f *sim.Flow) {
	r.credits(f).Stop()
	r.out.WakeAt(f, 0)
}
