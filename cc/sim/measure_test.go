// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/cc/sim"
)

// TestHistogram: a quantile is not below the true one and at most 1/32 above.
func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 1<<40), 1, 200).Draw(t, "values")
		var h sim.Histogram
		for _, v := range values {
			h.Add(v)
		}
		slices.Sort(values)
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		want := values[min(int(q*float64(len(values))), len(values)-1)]
		if got := h.Quantile(q); got < want || float64(got) > float64(want)*(1+1.0/32) {
			t.Fatalf("quantile %.3f is %d, want %d to 1/32 more", q, got, want)
		}
		if h.Max() != values[len(values)-1] || h.Count() != uint64(len(values)) {
			t.Fatalf("max %d of %d values", h.Max(), h.Count())
		}
	})
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		shares []float64
		want   float64
	}{{[]float64{1, 1, 1, 1}, 1}, {[]float64{1, 0, 0, 0}, 0.25}, {[]float64{2, 1}, 0.9}, {nil, 0}, {[]float64{0, 0}, 0}} {
		if got := sim.Jain(c.shares); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("Jain(%v) = %v, want %v", c.shares, got, c.want)
		}
	}
}

// TestQueueDelay: two hosts send 100 packets each at the same time at the speed
// of the bottleneck. Of 200 packets the i-th waits for about half of i others.
func TestQueueDelay(t *testing.T) {
	n, _ := incast(t, sim.Config{}, &sim.Fixed{}, 2, 100_000)
	tr, err := n.Trace(3, 0)
	if err != nil {
		t.Fatal(err)
	}
	s, err := n.Watch(3, 0, n.Flows(), time.Microsecond)
	if err != nil {
		t.Fatal(err)
	}
	n.Run(100 * time.Microsecond)
	if got, want := tr.Delay.Max(), 100*86.56; math.Abs(float64(got)-want) > 100 {
		t.Errorf("longest wait %d ns, want about %.0f", got, want)
	}
	if got, want := tr.Delay.Quantile(0.5), 50*86.56; math.Abs(float64(got)-want) > 250 {
		t.Errorf("median wait %d ns, want about %.0f", got, want)
	}
	if got := float64(slices.Max(s.QueueBytes)); math.Abs(got-100*1082) > 12*1082 {
		t.Errorf("longest queue seen %.0f bytes, want about %d", got, 100*1082)
	}
	if tr.Delay.Count() != 200 {
		t.Errorf("%d packets traced, want 200", tr.Delay.Count())
	}
}

// TestConverged: the second flow starts later, and from then on they share.
func TestConverged(t *testing.T) {
	n := build(t, sim.Config{PFC: sim.On}, sim.Star(3, gig100), &sim.Fixed{BDP: true})
	flows := []*sim.Flow{
		add(t, n, sim.FlowSpec{Src: 1, Dst: 0, Bytes: 1 << 40}),
		add(t, n, sim.FlowSpec{Src: 2, Dst: 0, Bytes: 1 << 40, Start: 500 * time.Microsecond}),
	}
	s, err := n.Watch(3, 0, flows, 10*time.Microsecond)
	if err != nil {
		t.Fatal(err)
	}
	n.Run(time.Millisecond)
	if d, ok := s.Converged(500*time.Microsecond, 1, 0.98); !ok || d > 30*time.Microsecond {
		t.Errorf("converged after %v, %v, want within 30 µs", d, ok)
	}
	if d, ok := s.Converged(0, 1, 0.98); !ok || d < 500*time.Microsecond {
		t.Errorf("converged after %v, %v although there was one flow until 500 µs", d, ok)
	}
}

func TestSlowdownBuckets(t *testing.T) {
	n := build(t, sim.Config{}, sim.Star(3, gig100), &sim.Fixed{})
	for i, size := range []int64{500, 1000, 1001, 50_000} {
		add(t, n, sim.FlowSpec{Src: 1, Dst: 0, Bytes: size, Start: time.Duration(i) * time.Millisecond})
	}
	add(t, n, sim.FlowSpec{Src: 1, Dst: 0, Bytes: 400, Start: time.Second})
	n.Run(10 * time.Millisecond)
	b := sim.Slowdowns(n.Flows(), []int64{1000, 10_000})
	for i, want := range []sim.Bucket{{Flows: 3, Unfinished: 1}, {Flows: 1}, {Flows: 1}} {
		if b[i].Flows != want.Flows || b[i].Unfinished != want.Unfinished || b[i].P99 != 1 || b[i].Mean != 1 {
			t.Errorf("bucket %d: %+v, want %d flows, %d unfinished, slowdown 1", i, b[i], want.Flows, want.Unfinished)
		}
	}
}

// TestRefused: what cannot work is refused with what to do about it.
func TestRefused(t *testing.T) {
	star := sim.Star(3, gig100)
	for _, c := range []struct {
		cfg  sim.Config
		tp   sim.Topology
		want string
	}{
		{sim.Config{Classes: 7}, star, "use 1 to 6"},
		{sim.Config{Classes: 2, Weights: []int{1}}, star, "one for each"},
		{sim.Config{PayloadBytes: 70_000}, star, "must fit 65535"},
		{sim.Config{PFC: sim.On, BufferBytes: 50_000}, star, "headroom"},
		{sim.Config{}, sim.Star(3, sim.Link{}), "rate of 0"},
		{sim.Config{}, sim.Topology{Hosts: 3, Switches: 1, Wires: star.Wires[:1]}, "give it one"},
	} {
		if _, err := sim.New(c.cfg, c.tp, &sim.Fixed{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
	n := build(t, sim.Config{}, star, &sim.Fixed{})
	for _, s := range []sim.FlowSpec{{Src: 0, Dst: 0, Bytes: 1}, {Src: 0, Dst: 9, Bytes: 1}, {Src: 0, Dst: 1}} {
		if _, err := n.Add(s); err == nil {
			t.Errorf("flow %+v was accepted", s)
		}
	}
}
