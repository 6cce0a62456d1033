// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/cc/sim"
)

// incast makes hosts 1 to n send to host 0.
func incast(t testing.TB, c sim.Config, s sim.Scheme, n int, bytes int64) (*sim.Net, []*sim.Flow) {
	net := build(t, c, sim.Star(n+1, gig100), s)
	var flows []*sim.Flow
	for h := range n {
		flows = append(flows, add(t, net, sim.FlowSpec{Src: h + 1, Dst: 0, Bytes: bytes}))
	}
	return net, flows
}

// TestSaturatedLink: with always something to send a link carries all it can.
func TestSaturatedLink(t *testing.T) {
	n, flows := incast(t, sim.Config{}, &sim.Fixed{BDP: true}, 4, 1<<30)
	n.Run(time.Millisecond)
	m := n.Mark()
	n.Run(3 * time.Millisecond)
	u, err := m.Utilisation(5, 0)
	if err != nil || math.Abs(u-1) > 1e-4 {
		t.Errorf("utilisation %.6f, %v, want 1", u, err)
	}
	if j := m.Jain(flows); j < 0.9999 {
		t.Errorf("equal windows share with index %.5f, want 1", j)
	}
	var sum float64
	for _, f := range flows {
		sum += m.Goodput(f)
	}
	if want := 100e9 * 1000 / 1082; math.Abs(sum/want-1) > 1e-3 {
		t.Errorf("payload %.4g bit/s, want %.4g", sum, want)
	}
}

// TestFixedRate: a pacer keeps its rate, headers counted, and its gaps are even.
func TestFixedRate(t *testing.T) {
	for _, bps := range []uint64{1e6, 123_456_789, 33e9, 99e9} {
		n, _ := incast(t, sim.Config{}, &sim.Fixed{RateBps: bps}, 1, 1<<40)
		n.Run(100 * time.Millisecond)
		p, _ := n.Port(1, 2)
		got := float64(p.TxBytes-1082) * 8 / 0.1 // the first packet is free
		if math.Abs(got/float64(bps)-1) > 1e-3 && math.Abs(got-float64(bps))*0.1 > 8*1082 {
			t.Errorf("%d bit/s asked for, %.0f sent", bps, got)
		}
	}
}

// TestPFCNeverDrops: many senders at full speed into one port and a small buffer.
func TestPFCNeverDrops(t *testing.T) {
	c := sim.Config{PFC: sim.On, BufferBytes: 2 << 20}
	n, flows := incast(t, c, &sim.Fixed{}, 16, 1_000_000)
	if !n.RunAll(100 * time.Millisecond) {
		t.Fatal("flows did not end")
	}
	if n.Drops != (n0{}) {
		t.Errorf("drops %v, want none", n.Drops)
	}
	if n.Pauses == 0 {
		t.Error("no pause was sent")
	}
	for _, f := range flows {
		if f.Retransmits != 0 {
			t.Errorf("flow %d: %d packets sent again", f.ID, f.Retransmits)
		}
	}

	n, _ = incast(t, sim.Config{BufferBytes: 2 << 20}, &sim.Fixed{}, 16, 1_000_000)
	n.Run(time.Millisecond)
	if n.Drops[sim.DropBuffer] == 0 {
		t.Error("without PFC nothing was dropped")
	}
}

// n0 is no drops.
type n0 = [5]uint64

// TestAcrossPFC: pauses spread over a fat-tree and still nothing is lost and
// nothing stands still.
func TestAcrossPFC(t *testing.T) {
	tp, err := sim.FatTree(4, gig100, gig100)
	if err != nil {
		t.Fatal(err)
	}
	n := build(t, sim.Config{PFC: sim.On, BufferBytes: 1 << 20, Seed: 3}, tp, &sim.Fixed{})
	for h := 3; h < 16; h++ {
		add(t, n, sim.FlowSpec{Src: h, Dst: h % 3, Bytes: 500_000 + int64(h)})
	}
	if !n.RunAll(100 * time.Millisecond) {
		t.Fatal("flows did not end")
	}
	if n.Drops != (n0{}) || n.Pauses == 0 {
		t.Errorf("drops %v, pauses %d", n.Drops, n.Pauses)
	}
}

// TestECNProbability: a queue that stands between Kmin and Kmax marks the share
// that RED says, none below Kmin and all above Kmax.
func TestECNProbability(t *testing.T) {
	for _, c := range []struct {
		window int64 // window of two senders, in packets beyond what is on the wires
		want   float64
	}{{30, 0}, {200, 0.1}, {600, 1}} {
		want := sim.Needs{ECN: func(uint64) sim.ECN { return sim.ECN{KminBytes: 100_000, KmaxBytes: 500_000, Pmax: 0.2} }}
		const rtt = 46 // packets that fit the wires: 4 µs at 100 Gb/s
		perHost := (c.window + rtt) / 2
		if c.want == 0.1 {
			perHost = (300_000/1082 + rtt) / 2
		}
		n, _ := incast(t, sim.Config{}, &sim.Fixed{WindowBytes: perHost * 1000, Want: want}, 2, 1<<40)
		n.Run(time.Millisecond)
		a, _ := n.Port(3, 0)
		n.Run(21 * time.Millisecond)
		b, _ := n.Port(3, 0)
		got := float64(b.Marks-a.Marks) / float64(b.TxPackets-a.TxPackets)
		if math.Abs(got-c.want) > 0.01 {
			t.Errorf("queue of %d bytes: share marked %.4f, want %.2f", b.QueueBytes, got, c.want)
		}
	}
}

// TestECMP: flows spread over the paths, and a flow keeps to one, so that its
// packets stay in order.
func TestECMP(t *testing.T) {
	tp := sim.LeafSpine(2, 16, 4, gig100, gig100)
	n := build(t, sim.Config{Seed: 1}, tp, &sim.Fixed{RateBps: 5e9})
	for h := range 16 {
		for range 4 {
			add(t, n, sim.FlowSpec{Src: h, Dst: 16 + h, Bytes: 1_000_000})
		}
	}
	if !n.RunAll(100*time.Millisecond) || n.Drops[sim.DropOrder] != 0 {
		t.Fatalf("drops %v", n.Drops)
	}
	for spine := range 4 {
		p, err := n.Port(32, 34+spine)
		if err != nil {
			t.Fatal(err)
		}
		if share := float64(p.TxPackets) / 64_000; share < 0.1 || share > 0.45 {
			t.Errorf("spine %d carries a share of %.2f, want about 0.25", spine, share)
		}
	}
}

// TestPriorities: a lower class goes first; with weights they share.
func TestPriorities(t *testing.T) {
	for _, c := range []struct {
		weights []int
		want    float64 // share of class 0
	}{{nil, 1}, {[]int{3, 1}, 0.75}, {[]int{1, 1}, 0.5}} {
		n := build(t, sim.Config{Classes: 2, Weights: c.weights, PFC: sim.On}, sim.Star(3, gig100), &sim.Fixed{})
		first := add(t, n, sim.FlowSpec{Src: 1, Dst: 0, Bytes: 1 << 40, Class: 0})
		second := add(t, n, sim.FlowSpec{Src: 2, Dst: 0, Bytes: 1 << 40, Class: 1})
		n.Run(100 * time.Microsecond)
		m := n.Mark()
		n.Run(2 * time.Millisecond)
		a, b := m.Goodput(first), m.Goodput(second)
		if got := a / (a + b); math.Abs(got-c.want) > 0.02 {
			t.Errorf("weights %v: class 0 gets %.3f, want %.2f", c.weights, got, c.want)
		}
	}
}

// TestINT: a packet brings the queue that it left behind at every switch.
func TestINT(t *testing.T) {
	s := &spy{want: sim.Needs{INT: true}}
	n := build(t, sim.Config{}, sim.Dumbbell(2, gig100, gig100), s)
	add(t, n, sim.FlowSpec{Src: 0, Dst: 2, Bytes: 100_000})
	add(t, n, sim.FlowSpec{Src: 1, Dst: 3, Bytes: 100_000})
	n.RunAll(time.Millisecond)
	var longest int64
	for _, a := range s.acks {
		if len(a.INT) != 2 {
			t.Fatalf("%d stamps, want those of 2 switches", len(a.INT))
		}
		longest = max(longest, a.INT[0].QueueBytes)
		if a.INT[1].QueueBytes != 0 {
			t.Errorf("queue of %d bytes behind the bottleneck", a.INT[1].QueueBytes)
		}
	}
	// Two flows at the link's rate: half of what they sent waits at the end.
	if want := int64(100 * 1082); math.Abs(float64(longest-want)) > 3*1082 {
		t.Errorf("longest queue %d bytes, want about %d", longest, want)
	}
	p, _ := n.Port(4, 5)
	if last := s.acks[len(s.acks)-1].INT[0]; last.TxBytes != p.TxBytes-1082 || last.RateBps != 100e9 {
		t.Errorf("last stamp %+v, port %+v", last, p)
	}
}

// TestLinkChange: a link slowed tenfold, and back.
func TestLinkChange(t *testing.T) {
	n, flows := incast(t, sim.Config{PFC: sim.On}, &sim.Fixed{}, 1, 1<<40)
	slow := gig100
	slow.Bps = 10e9
	n.At(time.Millisecond, func() {
		if err := n.SetLink(2, 0, slow); err != nil {
			t.Error(err)
		}
	})
	n.At(2*time.Millisecond, func() { _ = n.SetLink(2, 0, gig100) })
	n.Run(time.Millisecond)
	for _, want := range []float64{10e9, 100e9} {
		m := n.Mark()
		n.Run(n.Now() + time.Millisecond)
		if got := m.Goodput(flows[0]) * 1.082; math.Abs(got/want-1) > 0.03 {
			t.Errorf("%.3g bit/s on the wire, want %.3g", got, want)
		}
	}
}

// TestDeterminism: the same scenario gives the same bytes, another seed others.
func TestDeterminism(t *testing.T) {
	run := func(seed uint64) []byte {
		lossy := gig100
		lossy.Loss, lossy.Jitter = 0.001, time.Microsecond
		tp, _ := sim.FatTree(4, lossy, gig100)
		n := build(t, sim.Config{Seed: seed, Transport: sim.Selective}, tp, &sim.Fixed{BDP: true})
		for h := range 16 {
			add(t, n, sim.FlowSpec{Src: h, Dst: (h + 5) % 16, Bytes: 200_000, Start: time.Duration(h)})
		}
		n.RunAll(time.Second)
		var out bytes.Buffer
		for _, f := range n.Flows() {
			fmt.Fprintln(&out, f.ID, f.EndNs, f.Retransmits, f.Timeouts)
		}
		fmt.Fprintln(&out, n.PacketHops, n.Drops)
		return out.Bytes()
	}
	a := run(1)
	if !bytes.Equal(a, run(1)) {
		t.Error("two runs differ")
	}
	if bytes.Equal(a, run(2)) {
		t.Error("another seed changed nothing")
	}
}

// TestNothingLeaks: in whatever network, every packet ends at a host or as a
// counted drop, buffers and ingress counts are back at 0, and every flow is whole.
func TestNothingLeaks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := gig100
		l.Loss = rapid.SampledFrom([]float64{0, 0, 0.01}).Draw(t, "loss")
		l.Jitter = rapid.SampledFrom([]time.Duration{0, time.Microsecond}).Draw(t, "jitter")
		tp := rapid.SampledFrom([]sim.Topology{
			sim.Star(5, l), sim.Dumbbell(3, l, gig100), sim.ParkingLot(3, l, gig100), sim.LeafSpine(2, 3, 2, l, gig100),
		}).Draw(t, "topology")
		c := sim.Config{
			Seed:        rapid.Uint64().Draw(t, "seed"),
			BufferBytes: rapid.SampledFrom([]int64{1 << 20, 32 << 20}).Draw(t, "buffer"),
			PFC:         rapid.SampledFrom([]sim.Switch{sim.On, sim.Off}).Draw(t, "pfc"),
			Transport:   rapid.SampledFrom([]sim.Transport{sim.GoBackN, sim.Selective}).Draw(t, "transport"),
			AckEvery:    rapid.IntRange(1, 4).Draw(t, "ack every"),
			AckPriority: rapid.Bool().Draw(t, "ack priority"),
			Classes:     rapid.IntRange(1, 3).Draw(t, "classes"),
			Turnaround:  rapid.SampledFrom([]time.Duration{0, time.Microsecond}).Draw(t, "turnaround"),
			RTO:         200 * time.Microsecond,
		}
		s := &sim.Fixed{
			RateBps:     rapid.SampledFrom([]uint64{0, 7e9, 60e9}).Draw(t, "rate"),
			WindowBytes: rapid.SampledFrom([]int64{1, 20_000, 150_000}).Draw(t, "window"),
		}
		if rapid.Bool().Draw(t, "shared pacer") {
			s.Want.Scope = sim.PerDestination
		}
		n, err := sim.New(c, tp, s)
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 12).Draw(t, "flows") {
			src := rapid.IntRange(0, tp.Hosts-1).Draw(t, "src")
			_, err := n.Add(sim.FlowSpec{
				Src: src, Dst: (src + rapid.IntRange(1, tp.Hosts-1).Draw(t, "to")) % tp.Hosts,
				Bytes: rapid.Int64Range(1, 200_000).Draw(t, "bytes"),
				Start: time.Duration(rapid.IntRange(0, 20_000).Draw(t, "start")),
				Class: uint8(rapid.IntRange(0, 2).Draw(t, "class")),
				Prio:  uint8(rapid.IntRange(0, 7).Draw(t, "prio")),
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if !n.RunAll(10 * time.Second) {
			t.Fatalf("flows did not end; drops %v", n.Drops)
		}
		n.Run(n.Now() + 10*time.Millisecond)
		for _, f := range n.Flows() {
			if f.ReceivedBytes() != f.Size {
				t.Fatalf("flow %d: %d of %d bytes", f.ID, f.ReceivedBytes(), f.Size)
			}
			if f.Slowdown() < 1 {
				t.Fatalf("flow %d: slowdown %v", f.ID, f.Slowdown())
			}
		}
		if err := n.Balance(); err != nil {
			t.Fatal(err)
		}
		if c.PFC == sim.On && n.Drops[sim.DropBuffer] > 0 {
			t.Fatalf("%d packets dropped with PFC", n.Drops[sim.DropBuffer])
		}
	})
}
