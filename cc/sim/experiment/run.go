// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"context"
	"time"

	"github.com/softroce/softroce-xdp/cc/sim"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

// run is the state of one run.
type run struct {
	s        *scenario.Scenario
	net      *sim.Net
	place    *place
	long     []*longFlow
	messages []message
	started  int // messages that started while measured
	bdp      int64
	series   *Series
	meter    *meter // meter of the bottleneck, nil without one

	lossFrom, lossTo loss
}

// longFlow is a flow without end.
type longFlow struct {
	*sim.Flow
	start          scenario.Time
	atFrom, atLast int64 // payload received when the measured interval began, and at the last sample
	atTo           int64
}

// Tags of flows: what the scenario wants to know of them.
const (
	tagOther   = iota // cross traffic, or outside of the measured interval
	tagLong           // without end
	tagMessage        // its completion counts
)

// streams of randomness, so that one does not change the others.
const (
	streamClocks = iota + 1
	streamTraffic
)

// Run runs one job. It depends on nothing but the job.
func Run(ctx context.Context, job Job, progress func(share float64)) (*Result, error) {
	r := &run{s: job.Scenario, series: &Series{}}
	scheme, err := newScheme(job.Scheme)
	if err != nil {
		return nil, err
	}
	if w := r.s.Transport.Window; w > 0 {
		scheme = windowed{scheme, int64(w)}
	}
	if r.s.Switch.Queues > 1 && scheme.Needs().Classes <= 1 {
		scheme = bySize{scheme, r.s.Switch.Queues}
	}
	if rates := crossRates(r.s); len(rates) > 0 {
		scheme = cross{scheme, rates}
	}
	if r.place, err = newPlace(r.s); err != nil {
		return nil, err
	}
	if r.net, err = sim.New(config(r.s, job.Seed), r.place.Topology, scheme); err != nil {
		return nil, err
	}
	r.setClocks(job.Seed)
	if err := r.events(); err != nil {
		return nil, err
	}
	if at := r.s.Measure.At; at.Kind != "" {
		if err := r.measureAt(at); err != nil {
			return nil, err
		}
	}
	if err := r.traffic(job.Seed); err != nil {
		return nil, err
	}
	progress(0)
	if err := r.simulate(ctx, progress); err != nil {
		return nil, err
	}
	return r.result(job), nil
}

func config(s *scenario.Scenario, seed uint64) sim.Config {
	c := sim.Config{
		Seed: seed, PayloadBytes: int(s.Transport.MTU), BufferBytes: int64(s.Switch.Buffer),
		Transport: sim.Selective, RTO: time.Duration(s.Transport.RTO), Classes: s.Switch.Queues,
	}
	if s.Transport.Recovery == "go-back-n" {
		c.Transport = sim.GoBackN
	}
	if s.Switch.PFC != nil {
		c.PFC = sim.Off
		if *s.Switch.PFC {
			c.PFC = sim.On
		}
	}
	return c
}

func (r *run) setClocks(seed uint64) {
	c := r.s.Clocks
	random := scenario.NewRand(seed, streamClocks)
	for h := range r.s.Topology.Size() {
		offset, drift := random.Float64()*2-1, random.Float64()*2-1
		r.net.SetClock(h, sim.Clock{
			Offset:   time.Duration(offset * float64(c.Offset)),
			DriftPPB: int64(drift * float64(c.Drift) * 1000),
		})
	}
	if c.Step != nil {
		r.net.At(time.Duration(c.Step.At), func() { r.net.StepClock(c.Step.Host, time.Duration(c.Step.By)) })
	}
}

func (r *run) events() error {
	for _, e := range r.s.Events {
		d, err := r.place.direction(e.Link)
		if err != nil {
			return err
		}
		l := link(r.s, e.Rate)
		r.net.At(time.Duration(e.At), func() {
			if err := r.net.SetLink(d.From, d.To, l); err != nil {
				panic(err) // the direction exists and the link is valid
			}
		})
	}
	return nil
}

// measureAt puts the meter on the bottleneck.
func (r *run) measureAt(at scenario.Link) error {
	d, err := r.place.direction(at)
	if err != nil {
		return err
	}
	rate := r.s.Links.Host
	if at.Kind == "trunk" {
		rate = r.s.Links.Trunk
	}
	var changes []change
	for _, e := range r.s.Events {
		if e.Link.Same(at) {
			changes = append(changes, change{int64(e.At), uint64(e.Rate)})
		}
	}
	r.meter, err = newMeter(r.net, d, uint64(rate), changes)
	return err
}

// simulate goes from sample to sample.
func (r *run) simulate(ctx context.Context, progress func(float64)) error {
	m := r.s.Measure
	end := m.To + m.Drain
	step := m.Sample
	if step == 0 {
		step = max(end/200, 1)
	}
	// Between samples it stops where something has to be noted exactly.
	edges := []scenario.Time{m.From, m.To, end}
	for _, e := range r.s.Events {
		edges = append(edges, e.At)
	}
	r.net.OnDone = r.done
	r.edge(0)
	for at, sample := scenario.Time(0), step; at < end; {
		next := sample
		for _, e := range edges {
			if at < e {
				next = min(next, e)
			}
		}
		at = next
		r.net.Run(time.Duration(at))
		if r.meter != nil {
			r.meter.advance()
		}
		if at == sample {
			sample += step
			if m.Sample > 0 && at <= m.To {
				r.sample(at)
			}
		}
		r.edge(at)
		if err := ctx.Err(); err != nil {
			return err
		}
		if at >= m.To && len(r.messages) == r.started {
			break // all messages are complete
		}
		progress(min(.99, float64(at)/float64(end)))
	}
	progress(1)
	return nil
}

// edge notes counters at the beginning and the end of the measured interval.
func (r *run) edge(at scenario.Time) {
	switch at {
	case r.s.Measure.From:
		for _, f := range r.long {
			f.atFrom = f.ReceivedBytes()
		}
		r.lossFrom = r.lost()
		if r.meter != nil {
			r.meter.begin()
		}
	case r.s.Measure.To:
		for _, f := range r.long {
			f.atTo = f.ReceivedBytes()
		}
		r.lossTo = r.lost()
		if r.meter != nil {
			r.meter.end()
		}
	}
}

// loss counts data packets: those that arrived, and those that switches and wires
// dropped.
type loss struct{ arrived, dropped uint64 }

func (r *run) lost() (l loss) {
	mtu := int64(r.s.Transport.MTU)
	for _, f := range r.net.Flows() {
		l.arrived += uint64((f.ReceivedBytes() + mtu - 1) / mtu)
	}
	for _, why := range []sim.Drop{sim.DropBuffer, sim.DropUnscheduled, sim.DropWire} {
		l.dropped += r.net.DataDrops[why]
	}
	return l
}

// since is the share that was dropped since another count.
func (l loss) since(from loss) float64 {
	dropped := l.dropped - from.dropped
	return float64(dropped) / float64(max(1, dropped+l.arrived-from.arrived))
}

// cost is what the run took.
func (r *run) cost() Cost {
	c := Cost{Hops: r.net.PacketHops}
	for _, w := range r.place.Wires {
		if w.A < r.place.Hosts {
			if s, err := r.net.Port(w.A, w.B); err == nil {
				c.Packets += s.TxPackets
			}
		}
	}
	return c
}

// done notes a message that completed.
func (r *run) done(f *sim.Flow) {
	if f.Tag != tagMessage {
		return
	}
	path := f.Pacer().Path
	r.bdp = max(r.bdp, path.BDPBytes())
	r.messages = append(r.messages, message{
		bytes: f.Size, slowdown: f.Slowdown(), oneRTT: f.FCTNs()-f.IdealNs() < path.BaseRTTNs,
	})
}

func (r *run) sample(at scenario.Time) {
	s := r.series
	before := int64(0)
	if n := len(s.AtNs); n > 0 {
		before = s.AtNs[n-1]
	}
	span := float64(int64(at)-before) / 1e9
	s.AtNs = append(s.AtNs, int64(at))
	if s.FlowBps == nil {
		s.FlowBps = make([][]float64, len(r.long))
	}
	for i, f := range r.long {
		now := f.ReceivedBytes()
		s.FlowBps[i] = append(s.FlowBps[i], float64(now-f.atLast)*8/span)
		f.atLast = now
	}
	if r.meter != nil {
		use, queue := r.meter.sample()
		s.Utilisation = append(s.Utilisation, use)
		s.QueueNs = append(s.QueueNs, queue)
	}
}

// result works out the figures.
func (r *run) result(job Job) *Result {
	m := r.s.Measure
	res := &Result{Scenario: r.s.Name, Scheme: job.Scheme.Label, Seed: job.Seed, Values: map[string]float64{}, BDPBytes: r.bdp}
	span := float64(m.To-m.From) / 1e9
	var fair []float64
	counts := make([]bool, len(r.long))
	for i, f := range r.long {
		bps := float64(f.atTo-f.atFrom) * 8 / span
		// A flow that joins later cannot have as much.
		counts[i] = f.start <= m.From
		if counts[i] {
			fair = append(fair, bps)
		}
		res.Flows = append(res.Flows, FlowRate{Src: f.Src, Dst: f.Dst, Bps: bps, Jain: counts[i]})
	}
	if len(fair) > 0 {
		res.Values["jain"] = sim.Jain(fair)
	}
	if r.meter != nil {
		r.meter.values(res.Values)
	}
	res.Values["loss"] = r.lossTo.since(r.lossFrom)
	if m.From > 0 && r.meter != nil {
		r.meter.startValues(res.Values)
		res.Values["start-loss"] = r.lossFrom.since(loss{})
	}
	res.Cost = r.cost()
	if m.Sample > 0 {
		res.Series = r.series
		if len(r.long) > 0 && r.meter != nil {
			res.Values["convergence"] = r.series.convergence(m.Converge, counts)
		}
	}
	if r.started > 0 {
		all := bucket(r.messages)
		res.Values["unfinished"] = 1 - float64(len(r.messages))/float64(r.started)
		if len(r.messages) > 0 {
			res.Values["slowdown-p50"], res.Values["slowdown-p99"] = all.P50, all.P99
		}
		if len(m.Buckets) > 0 {
			res.Buckets = buckets(m.Buckets, r.messages)
		}
	}
	return res
}
