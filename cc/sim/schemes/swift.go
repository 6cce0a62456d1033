// SPDX-License-Identifier: Apache-2.0

package schemes

import (
	"github.com/softroce/softroce-xdp/cc/sim"
	"github.com/softroce/softroce-xdp/cc/sim/published"
)

var swiftEntries = []Entry{
	{"swift", "Swift: a window from the distance to a target delay", func() settings {
		return &swiftSettings{}
	}},
}

type swiftSettings struct {
	target, hop, fsRange        int64
	fsMin, fsMax, ai, beta, mdf float64
	minCwnd, maxCwnd, start     float64
}

func (s *swiftSettings) fields() []field {
	return []field{
		timeField("target", &s.target, "target round trip of a wide window; 5/4 of the path's if not given"),
		timeField("hop", &s.hop, "more target per hop"),
		timeField("fs-range", &s.fsRange, "most that a small window adds to the target; the path's round trip if not given"),
		shareField("fs-min", &s.fsMin, "packets of window at which it adds that (0.1)"),
		shareField("fs-max", &s.fsMax, "packets of window at which it adds nothing (100)"),
		shareField("ai", &s.ai, "packets per round trip (1)"),
		shareField("beta", &s.beta, "gain of the cut (0.8)"),
		shareField("max-mdf", &s.mdf, "most that one cut takes (0.5)"),
		shareField("min-cwnd", &s.minCwnd, "packets (0.001)"),
		shareField("max-cwnd", &s.maxCwnd, "packets; four bandwidth-delay products if not given"),
		shareField("start", &s.start, "packets of a new flow's window; one bandwidth-delay product if not given"),
	}
}

func (s *swiftSettings) params(p *sim.Path) published.SwiftParams {
	w := published.SwiftDefault(p.BaseRTTNs, float64(p.BDPBytes())/float64(p.PayloadBytes))
	override(&w.BaseTargetNs, s.target)
	override(&w.HopNs, s.hop)
	override(&w.FSRangeNs, s.fsRange)
	override(&w.FSMinCwnd, s.fsMin)
	override(&w.FSMaxCwnd, s.fsMax)
	override(&w.AI, s.ai)
	override(&w.Beta, s.beta)
	override(&w.MaxMDF, s.mdf)
	override(&w.MinCwnd, s.minCwnd)
	override(&w.MaxCwnd, s.maxCwnd)
	override(&w.InitialCwnd, s.start)
	return w
}

func (s *swiftSettings) scheme(name string) (sim.Scheme, error) {
	p := s.params(&typicalPath)
	return &swiftScheme{name: name, s: *s}, p.Validate()
}

type swiftScheme struct {
	name   string
	s      swiftSettings
	params perPath[published.SwiftParams]
}

func (w *swiftScheme) Name() string                          { return w.name }
func (w *swiftScheme) Needs() sim.Needs                      { return sim.Needs{} }
func (w *swiftScheme) NewReceiver(int, sim.Out) sim.Receiver { return nil }

func (w *swiftScheme) NewControl(now int64, p *sim.Pacer) sim.Control {
	c := &swiftControl{}
	c.flow.Reset(w.params.get(&p.Path, w.s.params))
	c.apply(p)
	return c
}

type swiftControl struct {
	sim.NoControl
	flow published.SwiftFlow
}

func (c *swiftControl) apply(p *sim.Pacer) {
	cwnd := c.flow.Cwnd()
	gap := c.flow.PacingGap()
	if cwnd < 1 && gap == 0 {
		gap = int64(float64(p.Path.BaseRTTNs) / cwnd)
	}
	if gap > 0 {
		// One packet in flight at most, and one per gap.
		p.WindowBytes = 1
		p.RateBps = max(uint64(float64(p.Path.PacketBytes)*8e9/float64(gap)), 1)
		return
	}
	// Whole packets: one more goes if it fits.
	p.RateBps = 0
	p.WindowBytes = int64((cwnd-1)*float64(p.Path.PayloadBytes)) + 1
}

func (c *swiftControl) Ack(now int64, p *sim.Pacer, a *sim.Ack) {
	if a.Probe || a.Retransmit {
		return
	}
	turnaround := max(a.T2Out-a.T2, 0)
	packets := float64(a.Bytes) / float64(p.Path.PayloadBytes)
	c.flow.Ack(now, a.RTTNs-turnaround, a.RTTNs, packets, int(a.Hops))
	c.apply(p)
}

func (c *swiftControl) Loss(now int64, p *sim.Pacer, f *sim.Flow, bytes int64) {
	c.flow.Loss(now)
	c.apply(p)
}

func (c *swiftControl) Timeout(now int64, p *sim.Pacer, f *sim.Flow) {
	c.flow.Timeout(now)
	c.apply(p)
}
