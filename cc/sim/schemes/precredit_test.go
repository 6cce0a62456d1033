// SPDX-License-Identifier: Apache-2.0

package schemes

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/cc/sim"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

var link100 = sim.Link{Bps: 100e9, Delay: 2 * time.Microsecond}

// outcome is what a run says of first round trips.
type outcome struct {
	flows, small, firstRTT int
	slow                   []float64 // slowdown of the small ones
	drops                  uint64
	unfinished             int
}

// judge counts, of the flows that fit a bandwidth-delay product, those that were
// complete when a packet that left one round trip after the start arrived.
func judge(n *sim.Net, path sim.Path) (o outcome) {
	for _, d := range n.DataDrops {
		o.drops += d
	}
	for _, f := range n.Flows() {
		o.flows++
		if f.EndNs == 0 {
			o.unfinished++
		}
		if f.Size > path.BDPBytes() {
			continue
		}
		o.small++
		if f.EndNs != 0 && f.FCTNs() <= path.BaseRTTNs+path.OneWayNs {
			o.firstRTT++
		}
		o.slow = append(o.slow, f.Slowdown())
	}
	return o
}

// fatTree runs all to all traffic for so many milliseconds on a fat-tree of k³/4 hosts.
func fatTree(t testing.TB, k int, s sim.Scheme, sizes *scenario.CDF, load float64, ms int) (outcome, *sim.Net) {
	t.Helper()
	top, err := sim.FatTree(k, sim.Link{Bps: 100e9, Delay: time.Microsecond}, sim.Link{Bps: 100e9, Delay: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	n, err := sim.New(sim.Config{Seed: 1}, top, s)
	if err != nil {
		t.Fatal(err)
	}
	flows, err := scenario.Uniform{Sizes: sizes, Hosts: top.Hosts, RateBps: 93e9, Load: load, To: int64(ms) * 1e6}.Flows(scenario.NewRand(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	var path sim.Path
	for i, w := range flows {
		f, err := n.Add(sim.FlowSpec{Src: w.Src, Dst: w.Dst, Bytes: w.Bytes, Start: time.Duration(w.At)})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			n.At(time.Duration(w.At+1), func() { path = f.Pacer().Path })
		}
	}
	n.RunAll(time.Duration(4*ms) * time.Millisecond)
	return judge(n, path), n
}

// withWindow makes pre-credit in addition to a window of a bandwidth-delay product, the simplest
// control that keeps queues in bounds, and that window alone.
func withWindow(t *testing.T, change func(*preSettings)) (with *preScheme, without sim.Scheme) {
	t.Helper()
	window := &sim.Fixed{BDP: true, Want: sim.Needs{Scope: sim.PerDestination}}
	set := preSettings{senders: 64, bias: precredit.DefaultSmallBias, oneQueue: true}
	if change != nil {
		change(&set)
	}
	s, err := newPre("window+precredit", set, window)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*preScheme), window
}

func quantile(v []float64, q float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[int(q*float64(len(v)-1))]
}

// More small flows are complete in the first round trip with pre-credit than without,
// the slowest are faster, and large flows do not pay for it.
func TestPrecreditFirstRoundTrip(t *testing.T) {
	with, without := withWindow(t, nil)
	a, na := fatTree(t, 4, without, scenario.WebSearch, 0.5, 4)
	b, nb := fatTree(t, 4, with, scenario.WebSearch, 0.5, 4)
	t.Logf("of %d small flows %d complete in the first round trip without, %d with; p99 slowdown %.2f and %.2f",
		a.small, a.firstRTT, b.firstRTT, quantile(a.slow, .99), quantile(b.slow, .99))
	if a.unfinished+b.unfinished > 0 || a.small != b.small {
		t.Fatalf("%+v, %+v", a, b)
	}
	if b.firstRTT <= a.firstRTT || quantile(b.slow, .99) >= quantile(a.slow, .99) {
		t.Error("no better with pre-credit")
	}
	large := func(n *sim.Net) (v []float64) {
		for _, f := range n.Flows() {
			if f.Size > 1_000_000 {
				v = append(v, f.Slowdown())
			}
		}
		return v
	}
	la, lb := quantile(large(na), .99), quantile(large(nb), .99)
	t.Logf("p99 slowdown of flows above 1 MB: %.2f without, %.2f with", la, lb)
	if lb > 1.2*la {
		t.Error("large flows starve")
	}
}

// What is sent on pre-credit fits the budget: in an incast that starts with nothing
// but pre-credit, the last hop never drops, however small its buffer is.
func TestPrecreditIncastFitsTheBuffer(t *testing.T) {
	const senders, buffer = 32, 400_000
	for _, c := range []struct {
		name string
		wait int
	}{{"pre-credit", 2}, {"line rate", 0}} {
		set := preSettings{senders: senders, wait: c.wait, budget: buffer / 4, oneQueue: true, cap: 1 << 20}
		if c.wait == 0 {
			set.budget = 4096 // nobody gets any
		}
		s, err := newPre(c.name, set, &sim.Fixed{Want: sim.Needs{Scope: sim.PerDestination}})
		if err != nil {
			t.Fatal(err)
		}
		n, err := sim.New(sim.Config{Seed: 1, BufferBytes: buffer}, sim.Star(senders+1, link100), s)
		if err != nil {
			t.Fatal(err)
		}
		for i := range senders {
			if _, err := n.Add(sim.FlowSpec{Src: i + 1, Dst: 0, Bytes: 100_000}); err != nil {
				t.Fatal(err)
			}
		}
		n.Run(8 * time.Microsecond) // the first round trip, all ACKs still in flight
		drops := n.DataDrops[sim.DropBuffer]
		t.Logf("%s: %d of the first packets dropped", c.name, drops)
		if (drops > 0) == (c.wait == 2) {
			t.Errorf("%s: %d drops", c.name, drops)
		}
	}
}

// An incast in a switch with 4 MB for all: without pre-credit every sender begins at the
// rate that its own link has, and most of that is lost. With it the first round trip
// fits, the ramp keeps to that, and nothing is.
func TestPrecreditIncast(t *testing.T) {
	const senders, bytes = 64, 200_000
	ideal := time.Duration(senders * bytes * 8 * 1100 / 1000 / 100) // at 100 Gb/s, headers included
	last := map[string]time.Duration{}
	for _, name := range []string{"fourcase", "fourcase-precredit", "swift"} {
		s, err := New(name)
		if err != nil {
			t.Fatal(err)
		}
		n, err := sim.New(sim.Config{Seed: 1, BufferBytes: 4 << 20}, sim.Star(senders+1, link100), s)
		if err != nil {
			t.Fatal(err)
		}
		for i := range senders {
			if _, err := n.Add(sim.FlowSpec{Src: i + 1, Dst: 0, Bytes: bytes, Start: time.Duration(i)}); err != nil {
				t.Fatal(err)
			}
		}
		n.RunAll(50 * time.Millisecond)
		for _, f := range n.Flows() {
			last[name] = max(last[name], time.Duration(f.FCTNs()))
		}
		drops := n.DataDrops[sim.DropBuffer]
		t.Logf("%s: the last of %d x %d bytes after %v (the link needs %v), %d drops", name, senders, bytes, last[name], ideal, drops)
		if name == "fourcase-precredit" && (drops > 0 || last[name] > ideal*5/4) {
			t.Errorf("%d drops, the last after %v", drops, last[name])
		}
	}
	if last["fourcase-precredit"] >= last["fourcase"] {
		t.Error("no better than without")
	}
}

// The whole scheme on a fat-tree of 16 hosts: of the flows that fit a bandwidth-delay
// product nearly all are complete in the first round trip. Half of the sizes unknown
// costs little.
func TestPrecreditWithFourcase(t *testing.T) {
	first := func(params ...Param) float64 {
		s, err := New("fourcase-precredit", params...)
		if err != nil {
			t.Fatal(err)
		}
		o, _ := fatTree(t, 4, s, scenario.WebSearch, 0.5, 1)
		share := float64(o.firstRTT) / float64(o.small)
		t.Logf("%v: %.1f %% of %d, p99 slowdown %.2f", params, 100*share, o.small, quantile(o.slow, .99))
		return share
	}
	if got := first(); got < .95 {
		t.Errorf("%.3f complete in the first round trip", got)
	}
	if got := first(Param{"unknown", "0.5"}); got < .8 {
		t.Errorf("%.3f complete in the first round trip when half of the sizes are unknown", got)
	}
	first(Param{"one-queue", "true"})
}

// A budget of four shares among twelve senders: the list moves them about, and all
// flows end; also when one packet in fifty gets lost.
func TestPrecreditFewShares(t *testing.T) {
	for _, loss := range []float64{0, 0.02} {
		with, _ := withWindow(t, func(s *preSettings) { s.budget, s.senders = 200_000, 4 })
		link := link100
		link.Loss = loss
		n, err := sim.New(sim.Config{Seed: 3, RTO: 200 * time.Microsecond}, sim.Star(13, link), with)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 240 {
			if _, err := n.Add(sim.FlowSpec{Src: 1 + i*7%12, Dst: 0, Bytes: int64(1000 + i*1537%90_000), Start: time.Duration(i) * 9 * time.Microsecond}); err != nil {
				t.Fatal(err)
			}
		}
		if !n.RunAll(200 * time.Millisecond) {
			t.Fatalf("loss %v: %d of 240 flows done", loss, n.DoneFlows)
		}
		st := with.receivers[0].core.Stats()
		t.Logf("loss %v: %+v, %d/1024 wasted", loss, st, (st.Void+st.Reclaimed)<<10/st.Given)
		if st.Flows[precredit.RuleHead] == 0 || st.Flows[precredit.RuleShare] == 0 || st.Drained == 0 || st.Void == 0 || (st.Lost > 0) != (loss > 0) {
			t.Errorf("loss %v: %+v", loss, st)
		}
		// A second later everything has expired or come back: nothing leaks.
		n.Run(n.Now() + 3*time.Second)
		if out := with.receivers[0].core.Outstanding(); out != 0 {
			t.Errorf("loss %v: %d bytes outstanding", loss, out)
		}
	}
}

// The same run gives the same packets.
func TestPrecreditDeterministic(t *testing.T) {
	var hops []uint64
	for range 2 {
		with, _ := withWindow(t, nil)
		_, n := fatTree(t, 4, with, scenario.FBHadoop, 0.2, 1)
		hops = append(hops, n.PacketHops)
	}
	if hops[0] != hops[1] {
		t.Errorf("%d and %d packet hops", hops[0], hops[1])
	}
}

func TestPrecreditRefusals(t *testing.T) {
	if _, err := newPre("x", preSettings{}, &sim.Fixed{}); err == nil {
		t.Error("added to a scheme with one pacer a flow")
	}
	for _, p := range []Param{{"senders", "-1"}, {"small-bias", "-1"}, {"wait", "3"}, {"unknown", "2"}} {
		if _, err := New("fourcase-precredit", p); err == nil {
			t.Errorf("%s %s was taken", p.Name, p.Value)
		}
	}
}

func TestPrecreditMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u32, u16, flag := rapid.Uint32(), rapid.Uint16(), rapid.Bool()
		g := precredit.Grant{Epoch: u32.Draw(t, "epoch"), Limit: u32.Draw(t, "limit"), Seq: u16.Draw(t, "seq"), Open: flag.Draw(t, "open"), Recall: flag.Draw(t, "recall")}
		x := &preScheme{}
		m := grantMessage(g)
		g.LifeNs = x.lifeNs()
		if got := grantOf(&m, x); got != g {
			t.Fatalf("%+v, want %+v", got, g)
		}
		r := precredit.Return{
			Epoch: u32.Draw(t, "epoch"), Limit: u32.Draw(t, "limit"), Sent: u32.Draw(t, "sent"), Void: u32.Draw(t, "void"),
			Seq: u16.Draw(t, "seq"), Expired: flag.Draw(t, "expired"), Unknown: flag.Draw(t, "unknown"),
		}
		m = returnMessage(r)
		if got := returnOf(&m); got != r {
			t.Fatalf("%+v, want %+v", got, r)
		}
	})
}

// Completion times on a fat-tree, with pre-credit and without (docs/study/congestion-control.md has the whole
// table): go test -run - -bench FatTree -benchtime 1x ./cc/sim/schemes
func BenchmarkPrecreditFatTree(b *testing.B) {
	for _, sizes := range []*scenario.CDF{scenario.WebSearch, scenario.FBHadoop} {
		for _, c := range []struct {
			scheme string
			params []Param
		}{
			{"fourcase", nil},
			{"fourcase-precredit", []Param{{"one-queue", "true"}}},
			{"fourcase-precredit", nil},
			{"fourcase-precredit", []Param{{"unknown", "0.5"}}},
			{"fourcase-precredit", []Param{{"wait", "2"}}},
			{"swift", nil},
			{"hpcc", nil},
			{"dcqcn", nil},
		} {
			b.Run(fmt.Sprint(sizes.Name, " ", c.scheme, c.params), func(b *testing.B) {
				for b.Loop() {
					s, err := New(c.scheme, c.params...)
					if err != nil {
						b.Fatal(err)
					}
					o, n := fatTree(b, 8, s, sizes, 0.5, 1)
					var large []float64
					for _, f := range n.Flows() {
						if f.Size > 300_000 {
							large = append(large, f.Slowdown())
						}
					}
					b.ReportMetric(100*float64(o.firstRTT)/float64(o.small), "%first-RTT")
					b.ReportMetric(quantile(o.slow, .5), "p50")
					b.ReportMetric(quantile(o.slow, .99), "p99")
					b.ReportMetric(quantile(large, .5), "large-p50")
					b.ReportMetric(quantile(large, .99), "large-p99")
				}
			})
		}
	}
}

// A sender that always has small flows for one destination lets a large one to another
// through as it ages, and not without aging.
func TestPrecreditSenderDoesNotStarve(t *testing.T) {
	for _, age := range []int{0, 4} {
		s, err := New("fourcase-precredit", Param{"age", fmt.Sprint(age)})
		if err != nil {
			t.Fatal(err)
		}
		n, err := sim.New(sim.Config{Seed: 1}, sim.Star(3, link100), s)
		if err != nil {
			t.Fatal(err)
		}
		large, err := n.Add(sim.FlowSpec{Src: 1, Dst: 0, Bytes: 500_000, Start: 20 * time.Microsecond})
		if err != nil {
			t.Fatal(err)
		}
		const size = 50_000 // takes 4.4 us of the link, and one begins every 4 us
		for i := range 300 {
			if _, err := n.Add(sim.FlowSpec{Src: 1, Dst: 2, Bytes: size, Start: time.Duration(i) * 4 * time.Microsecond}); err != nil {
				t.Fatal(err)
			}
		}
		n.Run(time.Millisecond) // small ones come for longer
		t.Logf("age %d: %d of %d bytes of the large flow are there", age, large.ReceivedBytes(), large.Size)
		if done := large.EndNs != 0; done != (age > 0) {
			t.Errorf("age %d: large flow done: %v", age, done)
		}
	}
}

// The later queues of switches are for the larger flows, whether their size is known or
// not, and no packet of a flow passes an earlier one.
func TestPrecreditQueuesBySize(t *testing.T) {
	for _, unknown := range []string{"0", "1"} {
		s, err := New("fourcase-precredit", Param{"unknown", unknown})
		if err != nil {
			t.Fatal(err)
		}
		watch := &classes{Scheme: s, used: map[int][]uint8{}}
		n, err := sim.New(sim.Config{Seed: 1, Transport: sim.GoBackN}, sim.Star(5, link100), watch)
		if err != nil {
			t.Fatal(err)
		}
		sizes := []int64{1000, 100_000, 300_000, 3_000_000}
		for i, size := range sizes {
			if _, err := n.Add(sim.FlowSpec{Src: i + 1, Dst: 0, Bytes: size}); err != nil {
				t.Fatal(err)
			}
		}
		if !n.RunAll(5 * time.Millisecond) {
			t.Fatalf("%d of %d flows done", n.DoneFlows, len(sizes))
		}
		for i, f := range n.Flows() {
			used := watch.used[f.ID]
			t.Logf("unknown %s: %d bytes in queues %d to %d", unknown, f.Size, used[0], used[len(used)-1])
			if f.Retransmits > 0 || !slices.IsSorted(used) {
				t.Errorf("unknown %s: %d bytes: queues %v, %d packets sent again", unknown, f.Size, used, f.Retransmits)
			}
			if last := used[len(used)-1]; i > 0 && last < watch.used[f.ID-1][len(watch.used[f.ID-1])-1] {
				t.Errorf("unknown %s: %d bytes end in queue %d, before those of less", unknown, f.Size, last)
			}
		}
		if first, last := watch.used[0], watch.used[3]; first[0] != 0 || last[len(last)-1] != precredit.SwitchQueues-1 {
			t.Errorf("unknown %s: the smallest in queue %d, the largest ends in %d", unknown, first[0], last[len(last)-1])
		}
	}
}

// classes notes the queue of each packet that leaves.
type classes struct {
	sim.Scheme
	used map[int][]uint8
}

func (c *classes) NewControl(now int64, p *sim.Pacer) sim.Control {
	return &classControl{c.Scheme.NewControl(now, p), c}
}

type classControl struct {
	sim.Control
	classes *classes
}

func (c *classControl) Sent(now int64, p *sim.Pacer, f *sim.Flow, d *sim.Data) {
	c.Control.Sent(now, p, f, d)
	c.classes.used[f.ID] = append(c.classes.used[f.ID], d.Class)
}
