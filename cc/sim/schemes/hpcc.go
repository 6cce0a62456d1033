// SPDX-License-Identifier: Apache-2.0

package schemes

import (
	"github.com/softroce/softroce-xdp/cc/sim"
	"github.com/softroce/softroce-xdp/cc/sim/published"
)

var hpccEntries = []Entry{
	{"hpcc", "HPCC: a window from the telemetry of every link", func() settings {
		return &hpccSettings{}
	}},
}

// intBytes is HPCC's telemetry of five hops in each data packet and ACK.
const intBytes = 42

type hpccSettings struct {
	baseRTT     int64
	eta         float64
	stages      int
	ai, minRate float64
}

func (s *hpccSettings) fields() []field {
	return []field{
		timeField("base-rtt", &s.baseRTT, "T, a little above the longest base RTT"),
		shareField("eta", &s.eta, "target utilisation (0.95)"),
		countField("max-stage", &s.stages, "additive round trips before a multiplicative one; the paper's text has 5, its simulations 0"),
		rateField("ai", &s.ai, "additive step"),
		rateField("min-rate", &s.minRate, "least rate"),
	}
}

func (s *hpccSettings) params(p *sim.Path) published.HPCCParams {
	t := s.baseRTT
	if t == 0 {
		t = p.BaseRTTNs + p.BaseRTTNs/20
	}
	h := published.HPCCDefault(float64(p.LinkBps), t)
	h.MaxStage = s.stages
	override(&h.Eta, s.eta)
	override(&h.AIBps, s.ai)
	override(&h.MinBps, s.minRate)
	return h
}

func (s *hpccSettings) scheme(name string) (sim.Scheme, error) {
	p := s.params(&typicalPath)
	return &hpccScheme{name: name, s: *s}, p.Validate()
}

type hpccScheme struct {
	name   string
	s      hpccSettings
	params perPath[published.HPCCParams]
}

func (h *hpccScheme) Name() string { return h.name }

func (h *hpccScheme) Needs() sim.Needs {
	return sim.Needs{PFC: true, INT: true, HeaderBytes: intBytes, AckHeaderBytes: intBytes}
}

func (h *hpccScheme) NewReceiver(int, sim.Out) sim.Receiver { return nil }

func (h *hpccScheme) NewControl(now int64, p *sim.Pacer) sim.Control {
	c := &hpccControl{}
	c.flow.Reset(h.params.get(&p.Path, h.s.params))
	c.apply(p)
	return c
}

type hpccControl struct {
	sim.NoControl
	rounds
	flow published.HPCCFlow
}

func (c *hpccControl) apply(p *sim.Pacer) {
	p.RateBps = max(uint64(c.flow.Rate()), 1)
	payload := float64(p.Path.PayloadBytes) / float64(p.Path.PacketBytes)
	p.WindowBytes = max(int64(c.flow.Window()*payload), 1)
}

func (c *hpccControl) Sent(now int64, p *sim.Pacer, f *sim.Flow, d *sim.Data) { c.sent(d) }

func (c *hpccControl) Ack(now int64, p *sim.Pacer, a *sim.Ack) {
	if a.Probe || len(a.INT) == 0 {
		return
	}
	var hops [published.HPCCMaxHops]published.HPCCHop
	n := min(len(a.INT), len(hops))
	for i, h := range a.INT[:n] {
		hops[i] = published.HPCCHop(h)
	}
	c.flow.Ack(hops[:n], acked(a), c.next)
	c.apply(p)
}
