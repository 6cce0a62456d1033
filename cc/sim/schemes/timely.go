// SPDX-License-Identifier: Apache-2.0

package schemes

import (
	"github.com/softroce/softroce-xdp/cc/sim"
	"github.com/softroce/softroce-xdp/cc/sim/published"
)

var timelyEntries = []Entry{
	{"timely", "TIMELY with a window, as the HPCC paper ran it", func() settings {
		return &timelySettings{window: window{on: true}}
	}},
	{"timely-no-window", "the same without a limit on bytes in flight", func() settings { return &timelySettings{} }},
}

type timelySettings struct {
	window
	tlow, thigh, minRTT    int64
	ewma, beta             float64
	ai, hai, minRate, init float64
	strict                 bool
	segment                int64
}

func (s *timelySettings) fields() []field {
	return append(s.window.fields(),
		timeField("t-low", &s.tlow, "below this round trip always raise (50us)"),
		timeField("t-high", &s.thigh, "above this round trip always cut (500us)"),
		timeField("min-rtt", &s.minRTT, "what the gradient is normalised by (20us)"),
		shareField("ewma", &s.ewma, "weight of the newest difference (0.875)"),
		shareField("beta", &s.beta, "decrease factor (0.8)"),
		rateField("ai", &s.ai, "additive step"),
		rateField("hai", &s.hai, "hyperactive step"),
		rateField("min-rate", &s.minRate, "least rate"),
		rateField("start", &s.init, "rate of a new flow; the link's if not given"),
		sizeField("segment", &s.segment, "decide for each so much acknowledged; once in a round trip if not given"),
		boolField("strict", &s.strict, "no hyperactive increase below t-low, as the paper's text has it"),
	)
}

func (s *timelySettings) params(path *sim.Path) published.TimelyParams {
	linkBps := float64(path.LinkBps)
	p := published.TimelyDefault(linkBps)
	p.Segment = uint64(s.segment) / uint64(path.PayloadBytes)
	override(&p.TLowNs, s.tlow)
	override(&p.THighNs, s.thigh)
	override(&p.MinRTTNs, s.minRTT)
	override(&p.EWMA, s.ewma)
	override(&p.Beta, s.beta)
	override(&p.AIBps, s.ai)
	override(&p.HAIBps, s.hai)
	override(&p.MinBps, s.minRate)
	p.StartBps = min(s.init, linkBps)
	p.HAIBelowTLow = !s.strict
	return p
}

func (s *timelySettings) scheme(name string) (sim.Scheme, error) {
	p := s.params(&typicalPath)
	return &timelyScheme{name: name, s: *s}, p.Validate()
}

type timelyScheme struct {
	name   string
	s      timelySettings
	params perPath[published.TimelyParams]
}

func (t *timelyScheme) Name() string                          { return t.name }
func (t *timelyScheme) Needs() sim.Needs                      { return sim.Needs{PFC: true} }
func (t *timelyScheme) NewReceiver(int, sim.Out) sim.Receiver { return nil }

func (t *timelyScheme) NewControl(now int64, p *sim.Pacer) sim.Control {
	c := &timelyControl{scheme: t}
	c.flow.Reset(t.params.get(&p.Path, t.s.params))
	t.s.window.set(p, c.flow.Rate())
	return c
}

type timelyControl struct {
	sim.NoControl
	rounds
	scheme *timelyScheme
	flow   published.TimelyFlow
}

func (c *timelyControl) Sent(now int64, p *sim.Pacer, f *sim.Flow, d *sim.Data) { c.sent(d) }

func (c *timelyControl) Ack(now int64, p *sim.Pacer, a *sim.Ack) {
	if a.Probe || a.Retransmit {
		return
	}
	c.flow.Ack(a.RTTNs, acked(a), c.next)
	c.scheme.s.window.set(p, c.flow.Rate())
}
