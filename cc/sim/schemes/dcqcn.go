// SPDX-License-Identifier: Apache-2.0

package schemes

import (
	"github.com/softroce/softroce-xdp/cc/sim"
	"github.com/softroce/softroce-xdp/cc/sim/published"
)

var dcqcnEntries = []Entry{
	{"dcqcn", "DCQCN with ConnectX's timers and a window, as the HPCC paper ran it", func() settings {
		return &dcqcnSettings{kmin: 100_000, kmax: 400_000, pmax: 0.2, window: window{on: true}}
	}},
	{"dcqcn-no-window", "the same without a limit on bytes in flight", func() settings {
		return &dcqcnSettings{kmin: 100_000, kmax: 400_000, pmax: 0.2}
	}},
	{"dcqcn-paper", "DCQCN with the timers of its paper, CNPs each 50 us, without a window", func() settings {
		return &dcqcnSettings{kmin: 100_000, kmax: 400_000, pmax: 0.2, paper: true}
	}},
}

type dcqcnSettings struct {
	window
	paper            bool
	kmin, kmax       int64 // thresholds at 25 Gb/s
	pmax             float64
	g                float64
	stages           int // 0 = the variant's
	incr, cut, gap   int64
	ai, hai, minRate float64
}

func (s *dcqcnSettings) fields() []field {
	return append(s.window.fields(),
		boolField("paper", &s.paper, "cut at each CNP, at most one in 50us, instead of every 4us"),
		sizeField("kmin", &s.kmin, "no marks below this queue, per 25 Gbit/s"),
		sizeField("kmax", &s.kmax, "all marked above this queue, per 25 Gbit/s"),
		shareField("pmax", &s.pmax, "share marked just below kmax"),
		shareField("g", &s.g, "weight of one step of alpha"),
		countField("stages", &s.stages, "steps of fast recovery, 0 = the variant's"),
		timeField("increase", &s.incr, "increase timer"),
		timeField("cut-gap", &s.cut, "least time between cuts"),
		timeField("cnp-gap", &s.gap, "least time between CNPs"),
		rateField("ai", &s.ai, "additive step"),
		rateField("hai", &s.hai, "hyper step"),
		rateField("min-rate", &s.minRate, "least rate"),
	)
}

// params are the variant's for a link, with what the scenario set.
func (s *dcqcnSettings) params(linkBps float64) published.DCQCNParams {
	p := published.DCQCNConnectX(linkBps)
	if s.paper {
		p = published.DCQCNPaper(linkBps)
	}
	override(&p.G, s.g)
	override(&p.Stages, s.stages)
	override(&p.IncrNs, s.incr)
	override(&p.CutNs, s.cut)
	override(&p.CNPGapNs, s.gap)
	override(&p.AIBps, s.ai)
	override(&p.HAIBps, s.hai)
	override(&p.MinBps, s.minRate)
	return p
}

func override[T comparable](to *T, v T) {
	var zero T
	if v != zero {
		*to = v
	}
}

func (s *dcqcnSettings) scheme(name string) (sim.Scheme, error) {
	p := s.params(100e9)
	return &dcqcnScheme{name: name, s: *s}, p.Validate()
}

type dcqcnScheme struct {
	name   string
	s      dcqcnSettings
	params perPath[published.DCQCNParams]
}

func (d *dcqcnScheme) Name() string { return d.name }

func (d *dcqcnScheme) Needs() sim.Needs {
	return sim.Needs{PFC: true, ECN: red(d.s.kmin, d.s.kmax, d.s.pmax)}
}

func (d *dcqcnScheme) of(p *sim.Path) *published.DCQCNParams {
	return d.params.get(p, func(p *sim.Path) published.DCQCNParams { return d.s.params(float64(p.LinkBps)) })
}

func (d *dcqcnScheme) NewControl(now int64, p *sim.Pacer) sim.Control {
	c := &dcqcnControl{scheme: d, params: d.of(&p.Path)}
	c.flow.Reset(c.params)
	c.apply(p)
	return c
}

// NewReceiver makes the notification point. ConnectX's look at CNPs is so rare
// against round trips that, as in the HPCC artefact, the marks on ACKs serve.
func (d *dcqcnScheme) NewReceiver(host int, out sim.Out) sim.Receiver {
	return &dcqcnReceiver{scheme: d, out: out}
}

type dcqcnControl struct {
	sim.NoControl
	scheme *dcqcnScheme
	params *published.DCQCNParams
	flow   published.DCQCNFlow
}

func (c *dcqcnControl) apply(p *sim.Pacer) {
	c.scheme.s.window.set(p, c.flow.Rate())
	p.TimerNs = 0
	if t := c.flow.Timer(); t != published.Never && p.Flows > 0 {
		p.TimerNs = t
	}
}

func (c *dcqcnControl) Sent(now int64, p *sim.Pacer, f *sim.Flow, d *sim.Data) {
	if c.params.IncrBytes > 0 {
		c.flow.Sent(now, int(d.Bytes))
		c.apply(p)
	}
}

func (c *dcqcnControl) Ack(now int64, p *sim.Pacer, a *sim.Ack) {
	if a.CE > 0 && c.params.CNPGapNs == 0 {
		c.flow.CNP(now)
		c.apply(p)
	}
}

func (c *dcqcnControl) CNP(now int64, p *sim.Pacer, f *sim.Flow) {
	c.flow.CNP(now)
	c.apply(p)
}

func (c *dcqcnControl) Expire(now int64, p *sim.Pacer) {
	c.flow.Expire(now)
	c.apply(p)
}

type dcqcnReceiver struct {
	sim.NoReceiver
	scheme *dcqcnScheme
	out    sim.Out
}

// dcqcnNP is the notification point of one flow.
type dcqcnNP struct {
	params *published.DCQCNParams
	published.DCQCNNotifier
}

func (r *dcqcnReceiver) Data(now int64, f *sim.Flow, d *sim.Data, reply *sim.Reply) {
	if !d.CE {
		return
	}
	np, ok := f.Rcv.(*dcqcnNP)
	if !ok {
		np = &dcqcnNP{params: r.scheme.of(r.out.Path(f))}
		f.Rcv = np
	}
	if np.params.CNPGapNs > 0 && np.CE(np.params, now) {
		r.out.CNP(f)
	}
}
