// SPDX-License-Identifier: Apache-2.0

package schemes

import (
	"math"

	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/sim"
)

var fourcaseEntries = []Entry{
	{"fourcase", "four-case: a rate and a window for each destination from two one-way times (S1.6), the NIC's own code", func() settings {
		return &fourcaseSettings{mode: fourcase.ModeRobust, window: true}
	}},
	{"fourcase-low-priority", "fourcase with the parameters for a low-priority class (ParamsLowPriority): for large flows where switches have queues by size", func() settings {
		return &fourcaseSettings{mode: fourcase.ModeRobust, window: true, lowPriority: true}
	}},
	{"fourcase-rate", "the same by rates alone, as where a kernel's pacer or policer enforces them", func() settings {
		return &fourcaseSettings{mode: fourcase.ModeRobust}
	}},
	{"literal", "four-case by the words of S1.6 alone, for comparison", func() settings {
		return &fourcaseSettings{mode: fourcase.ModeLiteral}
	}},
}

// stampBytes is the stamp option, on data and on ACKs.
const stampBytes = 40

type fourcaseSettings struct {
	window, lowPriority                   bool
	mode                                  fourcase.Mode
	interval, target, targetMax, deadband int64
	minRate, initial                      float64
	beta, maxCut, raise, maxRaise, loss   float64
	raiseAfter                            int
}

func (s *fourcaseSettings) fields() []field {
	return []field{
		boolField("window", &s.window, "limit bytes in flight to what the rate and the delay aimed at explain"),
		timeField("interval", &s.interval, "least time between decisions"),
		timeField("target", &s.target, "queueing delay aimed at by a sender at the link's rate"),
		timeField("target-max", &s.targetMax, "and by the slowest ones"),
		timeField("deadband", &s.deadband, "changes below this are no change"),
		rateField("min-rate", &s.minRate, "lowest rate"),
		rateField("initial-rate", &s.initial, "rate of a new destination; an even share of the host's link if not given (S1.2)"),
		shareField("beta", &s.beta, "gain of the proportional cut"),
		shareField("max-cut", &s.maxCut, "most that one decision cuts"),
		shareField("raise", &s.raise, "one raise at the link's rate"),
		shareField("max-raise", &s.maxRaise, "most that one decision raises"),
		countField("raise-after", &s.raiseAfter, "raises in a row before they accelerate; 0 = the policy's own"),
		shareField("loss-cut", &s.loss, "cut on loss"),
	}
}

func (s *fourcaseSettings) params(p *sim.Path) fourcase.Params {
	w := fourcase.ParamsFor(p.LinkBps, uint64(p.BaseRTTNs), s.window)
	if s.lowPriority {
		w = fourcase.ParamsLowPriority(p.LinkBps, uint64(p.BaseRTTNs))
	}
	w.Mode = s.mode
	ns := func(to *uint64, v int64) {
		if v != 0 {
			*to = uint64(v)
		}
	}
	q10 := func(to *uint32, v float64) {
		if v != 0 {
			*to = uint32(max(math.Round(v*1024), 1))
		}
	}
	ns(&w.IntervalNs, s.interval)
	ns(&w.TargetNs, s.target)
	ns(&w.TargetMaxNs, s.targetMax)
	ns(&w.DeadbandNs, s.deadband)
	ns(&w.MinRateBps, int64(s.minRate))
	q10(&w.BetaQ10, s.beta)
	q10(&w.MaxCutQ10, s.maxCut)
	q10(&w.RaiseQ10, s.raise)
	q10(&w.MaxRaiseQ10, s.maxRaise)
	q10(&w.LossCutQ10, s.loss)
	if s.raiseAfter != 0 {
		w.RaiseAfter = uint32(s.raiseAfter)
	}
	return w
}

func (s *fourcaseSettings) scheme(name string) (sim.Scheme, error) {
	p := s.params(&typicalPath)
	return &fourcaseScheme{name: name, s: *s, busy: map[int]int{}}, p.Validate()
}

type fourcaseScheme struct {
	name   string
	s      fourcaseSettings
	params perPath[fourcase.Params]
	busy   map[int]int // destinations with data, by source host
}

func (w *fourcaseScheme) Name() string { return w.name }

func (w *fourcaseScheme) Needs() sim.Needs {
	return sim.Needs{Scope: sim.PerDestination, Hello: true, HeaderBytes: stampBytes, AckHeaderBytes: stampBytes}
}

func (w *fourcaseScheme) NewReceiver(int, sim.Out) sim.Receiver { return nil }

func (w *fourcaseScheme) NewControl(now int64, p *sim.Pacer) sim.Control {
	return &fourcaseControl{scheme: w, params: w.params.get(&p.Path, w.s.params)}
}

// fourcaseControl is the data plane and the agent of one destination: it gathers
// a window of echoes and makes one step of the policy when the interval is over.
type fourcaseControl struct {
	sim.NoControl
	scheme *fourcaseScheme
	params *fourcase.Params // parameters of all flows with such a path
	// initial is Params.InitialRateBps of this one, 0 until it has had data.
	initial uint64
	since   int64  // start of the window
	settle  int64  // echoes of packets that left before this are of the old rate
	sent    uint64 // packets, each counted once
	window  fourcase.Sample
	regs    fourcase.Regs
}

// own are the parameters of this destination.
func (c *fourcaseControl) own() fourcase.Params {
	p := *c.params
	p.InitialRateBps = c.initial
	return p
}

// share is what a destination starts with: the host's link, split evenly over
// those that it has data for.
func (c *fourcaseControl) share(p *sim.Pacer) uint64 {
	if c.scheme.s.initial != 0 {
		return uint64(c.scheme.s.initial)
	}
	return max(fourcase.EvenShare(p.Path.LinkBps, c.scheme.busy[p.Src]), c.params.MinRateBps)
}

func (c *fourcaseControl) Start(now int64, p *sim.Pacer, f *sim.Flow) {
	if p.Flows == 1 {
		c.scheme.busy[p.Src]++
		c.initial = c.share(p)
		params := c.own()
		fourcase.RestartIdle(&c.regs, &params, uint64(now))
	}
	c.apply(p)
}

// apply puts the policy's rate into the pacer, and the window if there is one.
func (c *fourcaseControl) apply(p *sim.Pacer) {
	p.RateBps = c.regs.RateBps
	if c.scheme.s.window {
		wire := fourcase.WindowBytes(&c.regs, c.params, uint64(p.Path.BaseRTTNs))
		p.WindowBytes = int64(wire) * int64(p.Path.PayloadBytes) / int64(p.Path.PacketBytes)
	}
}

func (c *fourcaseControl) Done(now int64, p *sim.Pacer, f *sim.Flow) {
	if p.Flows == 0 {
		c.scheme.busy[p.Src]--
	}
}

func (c *fourcaseControl) Sent(now int64, p *sim.Pacer, f *sim.Flow, d *sim.Data) {
	if !d.Retransmit {
		c.sent++
	}
}

func (c *fourcaseControl) Loss(now int64, p *sim.Pacer, f *sim.Flow, bytes int64) { c.lost(now, p) }
func (c *fourcaseControl) Timeout(now int64, p *sim.Pacer, f *sim.Flow)           { c.lost(now, p) }

// lost is a sign of loss. It counts as in the data plane: once packets that left
// under the rate in force may have been lost.
func (c *fourcaseControl) lost(now int64, p *sim.Pacer) {
	if now-p.Path.BaseRTTNs >= c.settle {
		c.window.Loss++
	}
	c.evaluate(now, p)
}

func (c *fourcaseControl) Ack(now int64, p *sim.Pacer, a *sim.Ack) {
	left := now - a.RTTNs
	if a.Probe || left >= c.settle {
		c.note(a)
	}
	c.evaluate(now, p)
}

// note takes an echo into the window, as note_echo of bpf/lib/dest.h does.
func (c *fourcaseControl) note(a *sim.Ack) {
	w := &c.window
	tx, rx := fourcase.OneWay(uint64(a.T1), uint64(a.T2), uint64(a.T3))
	if w.Samples == 0 {
		w.Tx, w.Rx, w.RTT = tx, rx, a.RTTNs
		w.Idle = a.Probe && a.Idle
	}
	w.Tx, w.Rx, w.RTT = min(w.Tx, tx), min(w.Rx, rx), min(w.RTT, a.RTTNs)
	w.Turn = max(a.T2Out-a.T2, 1) // 0 means unknown
	w.Idle = w.Idle && a.Probe
	w.CE += a.CE
	w.Samples++
}

func (c *fourcaseControl) evaluate(now int64, p *sim.Pacer) {
	if !c.window.Idle && now-c.since < int64(c.params.IntervalNs) {
		return
	}
	c.window.Sent = c.sent + 1 // 0 means unknown
	c.window.AppLimited = p.EmptyNs != 0 && (p.EmptyNs >= c.since || p.BacklogBytes == 0)
	before := c.regs.RateBps
	params := c.own()
	fourcase.Step(&c.regs, &params, c.window, uint64(now))
	c.window, c.since = fourcase.Sample{}, now
	if c.regs.RateBps != before {
		c.settle = now
	}
	c.apply(p)
}
