// SPDX-License-Identifier: Apache-2.0

package schemes

import (
	"github.com/softroce/softroce-xdp/cc/sim"
	"github.com/softroce/softroce-xdp/cc/sim/published"
)

var dctcpEntries = []Entry{
	{"dctcp", "DCTCP in a NIC, started at line rate, as the HPCC paper ran it", func() settings {
		return &dctcpSettings{k: 75_000, window: window{on: true}}
	}},
}

type dctcpSettings struct {
	window
	k           int64 // threshold at 25 Gb/s
	g           float64
	ai, minRate float64
}

func (s *dctcpSettings) fields() []field {
	return append(s.window.fields(),
		sizeField("k", &s.k, "all marked above this queue, per 25 Gbit/s"),
		shareField("g", &s.g, "weight of a round's share of marks (1/16)"),
		rateField("ai", &s.ai, "additive step per round trip; one packet if not given"),
		rateField("min-rate", &s.minRate, "least rate"),
	)
}

func (s *dctcpSettings) params(p *sim.Path) published.DCTCPParams {
	d := published.DCTCPDefault(float64(p.LinkBps), s.baseRTT(p), p.PacketBytes)
	override(&d.G, s.g)
	override(&d.AIBps, s.ai)
	override(&d.MinBps, s.minRate)
	return d
}

func (s *dctcpSettings) scheme(name string) (sim.Scheme, error) {
	p := s.params(&typicalPath)
	return &dctcpScheme{name: name, s: *s}, p.Validate()
}

// typicalPath is what settings are checked with before a path is known.
var typicalPath = sim.Path{BaseRTTNs: 12_000, OneWayNs: 6_000, LinkBps: 100e9, MinBps: 100e9, Hops: 6, PayloadBytes: 1000, PacketBytes: 1082}

type dctcpScheme struct {
	name   string
	s      dctcpSettings
	params perPath[published.DCTCPParams]
}

func (d *dctcpScheme) Name() string { return d.name }

func (d *dctcpScheme) Needs() sim.Needs {
	return sim.Needs{PFC: true, ECN: red(d.s.k, d.s.k, 1)}
}

func (d *dctcpScheme) NewReceiver(int, sim.Out) sim.Receiver { return nil }

func (d *dctcpScheme) NewControl(now int64, p *sim.Pacer) sim.Control {
	c := &dctcpControl{scheme: d}
	c.flow.Reset(d.params.get(&p.Path, d.s.params))
	d.s.window.set(p, c.flow.Rate())
	return c
}

type dctcpControl struct {
	sim.NoControl
	rounds
	scheme *dctcpScheme
	flow   published.DCTCPFlow
}

func (c *dctcpControl) Sent(now int64, p *sim.Pacer, f *sim.Flow, d *sim.Data) { c.sent(d) }

func (c *dctcpControl) Ack(now int64, p *sim.Pacer, a *sim.Ack) {
	if a.Probe {
		return
	}
	c.flow.Ack(uint64(a.CE), acked(a), c.next)
	c.scheme.s.window.set(p, c.flow.Rate())
}
