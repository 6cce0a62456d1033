// SPDX-License-Identifier: Apache-2.0

package rates

// The files simreal_*.go run a scenario of package scenario twice: on network namespaces
// with the product attached to every host, and in the simulator. What comes out of
// both is worked out from samples in the same way.
//
// A real run can do what a star of hosts can: endless flows, cross traffic, and events
// that change the rate of the link to a host. Such a link is a token bucket at the port of the
// bridge; its rate until the first event is that of an event at time 0.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/cc/sim/experiment"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Spec is the topology of a scenario, and the rates that its links begin with.
func Spec(s *scenario.Scenario) (topo.Spec, error) {
	if s.Topology.Kind != "star" {
		return topo.Spec{}, fmt.Errorf("simvsreal: %s is a %s: only a star can be built", s.Name, s.Topology.Kind)
	}
	spec := topo.Spec{MTU: max(1500, int(s.Transport.MTU)+200), StaticNeighbours: true, Hosts: make([]topo.HostSpec, s.Topology.Hosts)}
	for _, e := range s.Events {
		if e.Link.Kind != "down" {
			return topo.Spec{}, fmt.Errorf("simvsreal: %s changes %v: only links to hosts (down) can be changed", s.Name, e.Link)
		}
		if e.At == 0 {
			spec.Hosts[e.Link.Number].Bottleneck = &topo.Bottleneck{RateBPS: uint64(e.Rate), Limit: int(s.Switch.Buffer), BurstTime: burst}
		}
	}
	if at := s.Measure.At; at.Kind != "down" || spec.Hosts[at.Number].Bottleneck == nil || s.Measure.Sample == 0 {
		return topo.Spec{}, fmt.Errorf("simvsreal: %s measures at %v every %v: needs a link to a host with an event at 0ns, and an interval", s.Name, at, s.Measure.Sample)
	}
	if s.Transport.Window == 0 {
		return topo.Spec{}, fmt.Errorf("simvsreal: %s has no transport: window", s.Name)
	}
	return spec, nil
}

// burst lets a bottleneck make up for the pauses of a shared machine.
const burst = 2 * time.Millisecond

// Traffic is what makes the flows of a scenario on real hosts.
type Traffic interface {
	// meet sends a little of a flow and returns its least round trip.
	meet(ctx context.Context, f scenario.Endless) (rtt time.Duration, err error)
	// send sends a flow until the context ends.
	send(ctx context.Context, f scenario.Endless) error
	// received says how much payload of each flow has arrived so far.
	received(bytes []uint64)
	Close() error
}

// real is a run in progress.
type real struct {
	s     *scenario.Scenario
	hosts []*topo.Host
	load  Traffic
	flows []scenario.Endless
	cross []*cross

	begin   time.Time
	series  *experiment.Series
	queue   topo.QueueStats
	packets uint64 // passed while measured
	drops   uint64
	bytes   []uint64 // received of each flow at the last sample
	before  []uint64 // received bytes at the sample before
}

// Run runs the flows and events of the scenario on its hosts, which the product is
// attached to, and samples them. It also returns the least round trip of the first
// packets, in the idle network.
func Run(ctx context.Context, s *scenario.Scenario, hosts []*topo.Host, load Traffic) (_ *experiment.Result, rtt time.Duration, err error) {
	r := &real{s: s, hosts: hosts, load: load, flows: s.Endless(), series: &experiment.Series{}}
	r.bytes, r.before = make([]uint64, len(r.flows)), make([]uint64, len(r.flows))
	r.series.FlowBps = make([][]float64, len(r.flows))
	defer r.close()
	if err := r.openCross(); err != nil {
		return nil, 0, err
	}
	// Everyone meets while the network is idle, as queue pairs do that connect.
	for _, f := range r.flows {
		took, err := load.meet(ctx, f)
		if err != nil {
			return nil, 0, err
		}
		if rtt == 0 || took < rtt {
			rtt = took
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := make(chan error, len(r.flows)+len(r.cross))
	r.begin = time.Now()
	for _, f := range r.flows {
		go func() { ended <- r.send(ctx, stop, f) }()
	}
	for _, c := range r.cross {
		go func() { ended <- c.run(ctx, r.begin) }()
	}
	err = r.watch(ctx)
	stop(nil)
	for range cap(ended) {
		err = errors.Join(err, <-ended)
	}
	if err != nil {
		return nil, 0, err
	}
	flows := make([]experiment.FlowRate, len(r.flows))
	for i, f := range r.flows {
		flows[i] = experiment.FlowRate{Src: f.Src, Dst: f.Dst}
	}
	return experiment.FromSamples(s, "real", flows, r.series, float64(r.drops)/float64(max(1, r.packets+r.drops))), rtt, nil
}

func (r *real) addr(host int) netip.Addr { return r.hosts[host].IPv4() }

func (r *real) close() {
	for _, c := range r.cross {
		c.close()
	}
}

// send sends one flow from its start until the context ends.
func (r *real) send(ctx context.Context, stop context.CancelCauseFunc, f scenario.Endless) error {
	if !wait(ctx, r.begin.Add(time.Duration(f.Start))) {
		return nil
	}
	err := r.load.send(ctx, f)
	if err != nil {
		stop(err)
	}
	return err
}

func wait(ctx context.Context, until time.Time) bool {
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// watch makes the events happen and samples until the end.
func (r *real) watch(ctx context.Context) error {
	m := r.s.Measure
	var err error
	if r.queue, err = r.port().Queue(); err != nil {
		return err
	}
	r.sampleFlows(0)
	events := slices.DeleteFunc(slices.Clone(r.s.Events), func(e scenario.Event) bool { return e.At == 0 })
	for at := m.Sample; at <= m.To; at = r.next(m.Sample) {
		for len(events) > 0 && events[0].At <= at {
			e := events[0]
			events = events[1:]
			if !wait(ctx, r.begin.Add(time.Duration(e.At))) {
				return context.Cause(ctx)
			}
			if err := r.hosts[e.Link.Number].Port().SetRate(uint64(e.Rate)); err != nil {
				return err
			}
		}
		if !wait(ctx, r.begin.Add(time.Duration(at))) {
			return context.Cause(ctx)
		}
		if err := r.sample(); err != nil {
			return err
		}
	}
	return nil
}

// next is the time of the next sample. On a busy machine some are left out: two in
// quick succession would say nothing.
func (r *real) next(every scenario.Time) scenario.Time {
	now := scenario.Time(time.Since(r.begin))
	at := (now/every + 1) * every
	if at-now < every/2 {
		at += every
	}
	return at
}

func (r *real) port() *topo.Port { return r.hosts[r.s.Measure.At.Number].Port() }

// sample reads the bottleneck and the receivers.
func (r *real) sample() error {
	q, err := r.port().Queue()
	if err != nil {
		return err
	}
	span := q.At.Sub(r.queue.At).Seconds()
	rate := float64(r.port().Bottleneck().RateBPS)
	s := r.series
	at := q.At.Sub(r.begin)
	s.AtNs = append(s.AtNs, int64(at))
	s.Utilisation = append(s.Utilisation, float64(q.Sent-r.queue.Sent)*8/span/rate)
	s.QueueNs = append(s.QueueNs, float64(q.Backlog)*8e9/rate)
	for i, bytes := range r.sampleFlows(span) {
		s.FlowBps[i] = append(s.FlowBps[i], bytes)
	}
	if at > time.Duration(r.s.Measure.From) {
		r.packets += q.SentPackets - r.queue.SentPackets
		r.drops += uint64(q.Drops - r.queue.Drops)
	}
	r.queue = q
	return nil
}

// sampleFlows returns the payload rate of each flow since it was called before.
func (r *real) sampleFlows(span float64) []float64 {
	rates := make([]float64, len(r.flows))
	r.bytes, r.before = r.before, r.bytes
	r.load.received(r.bytes)
	for i := range rates {
		rates[i] = float64(r.bytes[i]-r.before[i]) * 8 / span
	}
	return rates
}
