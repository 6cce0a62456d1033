// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

func jobs(t *testing.T, s *scenario.Scenario, schemes ...string) []Job {
	t.Helper()
	chosen, err := Schemes(s, schemes)
	if err != nil {
		t.Fatal(err)
	}
	return Jobs(s, chosen)
}

func runAll(t *testing.T, jobs []Job, parallel int) []*Result {
	t.Helper()
	results, err := RunAll(t.Context(), jobs, parallel, func(int, float64) {})
	if err != nil {
		t.Fatal(err)
	}
	return results
}

const everything = `name: everything
topology: {kind: dumbbell, hosts: 6}
links: {host: 10Gbit/s, delay: 1us, jitter: 500ns, loss: 0.1%}
clocks: {offset: 10ms, drift: 50ppm, step: {host: 1, at: 1ms, by: -5ms}}
traffic:
  - flows: {from: 0-1, to: 3, each: 200us}
  - flows: {from: 0, to: 4, bytes: 100KB, start: 1ms, count: 3}
  - on-off: {from: 2, to: 5, rate: 1Gbit/s, on: 100us, off: 200us}
events: [{at: 1500us, link: trunk 0, rate: 5Gbit/s}]
measure: {from: 500us, to: 3ms, at: trunk 0, sample: 50us, buckets: [1MB]}
seeds: [1, 2]
`

// The same job gives the same result to the last bit, whatever runs at the same time;
// another seed gives another one.
func TestDeterminism(t *testing.T) {
	all := jobs(t, read(t, everything), "dcqcn", "swift", "hpcc", "expresspass")
	one, two := runAll(t, all, 1), runAll(t, all, 4)
	if diff := cmp.Diff(one, two); diff != "" {
		t.Errorf("-alone +with others\n%s", diff)
	}
	if cmp.Equal(one[0].Series, one[1].Series) {
		t.Error("two seeds give the same run")
	}
}

func TestFiguresOfARun(t *testing.T) {
	r := runAll(t, jobs(t, read(t, everything), "swift")[:1], 1)[0]
	if len(r.Flows) != 2 || r.Flows[1].Src != 1 || r.Flows[1].Dst != 3 || !r.Flows[1].Jain {
		t.Errorf("flows: %+v", r.Flows)
	}
	if len(r.Buckets) != 1 || r.Buckets[0].Count != 3 || r.Values["unfinished"] != 0 || r.Buckets[0].P50 < 1 {
		t.Errorf("messages: %+v, unfinished %v", r.Buckets, r.Values["unfinished"])
	}
	if n := len(r.Series.AtNs); n != 60 || len(r.Series.QueueNs) != n || len(r.Series.FlowBps[1]) != n {
		t.Errorf("%d samples", n)
	}
	if l := r.Values["loss"]; l <= 0 || l > .02 {
		t.Errorf("loss %v of wires that lose 0.1 %%", l)
	}
	if r.Cost.Hops < 3*r.Cost.Packets/2 {
		t.Errorf("cost %+v: a packet crosses three links", r.Cost)
	}
}

// A flow alone fills the link; when the link is slowed in the middle, utilisation
// is still of what it could carry.
func TestUtilisationFollowsTheLink(t *testing.T) {
	s := read(t, `name: slowed
topology: {kind: star, hosts: 2}
links: {host: 10Gbit/s, delay: 1us}
traffic: [{on-off: {from: 1, to: 0, rate: 1Gbit/s}}]
events: [{at: 2ms, link: down 0, rate: 2Gbit/s}]
measure: {from: 1ms, to: 3ms, at: down 0, sample: 100us}
`)
	r := runAll(t, jobs(t, s, "hpcc"), 1)[0]
	// A tenth for a millisecond and a half for another: 2 of 12 Mbit.
	if got := r.Values["utilisation"]; math.Abs(got-1./6) > .005 {
		t.Errorf("utilisation %.4f, want %.4f", got, 1./6)
	}
	u := r.Series.Utilisation
	if math.Abs(u[15]-.1) > .02 || math.Abs(u[25]-.5) > .02 {
		t.Errorf("utilisation before %.3f, after %.3f; want 0.1 and 0.5", u[15], u[25])
	}
}

// What a host may have in flight limits a flow whose scheme would send more.
func TestWindow(t *testing.T) {
	const text = `name: window
topology: {kind: star, hosts: 2}
links: {host: 10Gbit/s, delay: 100us}
transport: {mtu: 1000, window: 50KB}
traffic: [{flows: {from: 1, to: 0}}]
measure: {from: 2ms, to: 12ms}
`
	// 50 KB in a round trip of 403 us are 993 Mbit/s.
	if r := runAll(t, jobs(t, read(t, text), "dcqcn-no-window"), 1)[0]; math.Abs(r.Flows[0].Bps/993e6-1) > .02 {
		t.Errorf("%.0f bit/s", r.Flows[0].Bps)
	}
}

// Cross traffic keeps to its times and obeys nobody.
func TestOnOff(t *testing.T) {
	s := read(t, `name: onoff
topology: {kind: star, hosts: 3}
links: {host: 10Gbit/s, delay: 1us}
traffic: [{on-off: {from: 1-2, to: 0, rate: 4Gbit/s, on: 200us, off: 300us, start: 1ms, stop: 3ms}}]
measure: {to: 4ms, at: down 0, sample: 100us}
`)
	for _, r := range runAll(t, jobs(t, s, "dcqcn", "expresspass"), 1) {
		for i, u := range r.Series.Utilisation {
			want := 0.
			if i >= 10 && i < 30 && (i-10)%5 < 2 {
				want = .8
			}
			// What was sent in one sample may arrive in the next.
			if math.Abs(u-want) > .1 {
				t.Errorf("%s: sample %d: %.3f, want %.1f", r.Scheme, i, u, want)
			}
		}
	}
}

// Two equal senders share fairly, and the figures worked out from samples are those
// of the run.
func TestFromSamples(t *testing.T) {
	s := read(t, `name: two
topology: {kind: star, hosts: 3}
links: {host: 10Gbit/s, delay: 1us}
traffic: [{flows: {from: 1-2, to: 0}}]
measure: {from: 2ms, to: 10ms, at: down 0, sample: 100us}
`)
	r := runAll(t, jobs(t, s, "swift"), 1)[0]
	again := FromSamples(s, "swift", r.Flows, r.Series, 0)
	for _, m := range []string{"utilisation", "jain", "convergence"} {
		if math.Abs(r.Values[m]-again.Values[m]) > 1e-6 {
			t.Errorf("%s: %v from counters, %v from samples", m, r.Values[m], again.Values[m])
		}
	}
	if r.Values["utilisation"] < .95 || r.Values["jain"] < .98 || r.Values["convergence"] > 1e6 {
		t.Errorf("two flows of Swift: %v", r.Values)
	}
	for i := range r.Flows {
		if math.Abs(again.Flows[i].Bps/r.Flows[i].Bps-1) > 1e-6 || r.Flows[i].Bps < 4e9 {
			t.Errorf("flow %d: %v from counters, %v from samples", i, r.Flows[i].Bps, again.Flows[i].Bps)
		}
	}
}

// Every topology can be built, and its links found.
func TestPlaces(t *testing.T) {
	for topology, links := range map[string][]string{
		"{kind: star, hosts: 3}":                               {"down 0", "up 2"},
		"{kind: dumbbell, hosts: 4}":                           {"down 0", "trunk 0", "trunk 0 back"},
		"{kind: parking-lot, hops: 3}":                         {"trunk 2", "trunk 0 back", "up 7"},
		"{kind: leaf-spine, hosts: 8, per-leaf: 4, spines: 2}": {"down 7", "up 0"},
		"{kind: fat-tree, k: 4}":                               {"down 15", "up 0"},
	} {
		for _, link := range links {
			s := read(t, "name: x\ntopology: "+topology+"\nlinks: {host: 10Gbit/s}\ntraffic: [{flows: {from: 0, to: 1}}]\nmeasure: {to: 1ms, at: "+link+"}\n")
			p, err := newPlace(s)
			if err != nil {
				t.Fatalf("%s: %v", topology, err)
			}
			if p.Hosts != s.Topology.Size() {
				t.Errorf("%s has %d hosts, and the scenario %d", topology, p.Hosts, s.Topology.Size())
			}
			d, err := p.direction(s.Measure.At)
			if err != nil {
				t.Errorf("%s: %s: %v", topology, link, err)
			}
			r := runAll(t, jobs(t, s, "hpcc"), 1)[0]
			if _, ok := r.Values["utilisation"]; !ok {
				t.Errorf("%s: %s (%+v) was not measured", topology, link, d)
			}
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := RunAll(ctx, jobs(t, read(t, twoFlows), "hpcc"), 2, func(int, float64) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestChoosingSchemes(t *testing.T) {
	s := read(t, twoFlows+"schemes: [hpcc, {name: swift, label: mine, target: 20us}]\n")
	got, err := Schemes(s, []string{"mine", "timely"})
	if err != nil || len(got) != 2 || got[0].Name != "swift" || len(got[0].Params) != 1 || got[1].Name != "timely" {
		t.Errorf("%+v, %v", got, err)
	}
	if all, err := Schemes(s, nil); err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
}

// Queues by size serve every scheme's small messages first, and one queue does not.
func TestQueues(t *testing.T) {
	const text = `name: queues
group: completion
topology: {kind: star, hosts: 4}
links: {host: 10Gbit/s, delay: 1us}
switch: {queues: %d}
transport: {mtu: 1000, window: 500KB}
traffic:
  - flows: {from: 1-2, to: 0, bytes: 2MB}
  - flows: {from: 3, to: 0, bytes: 1KB, start: 1ms}
measure: {from: 1ms, to: 2ms, drain: 20ms}
`
	slowdown := func(queues int) float64 {
		return runAll(t, jobs(t, read(t, fmt.Sprintf(text, queues)), "dcqcn-no-window"), 1)[0].Values["slowdown-p99"]
	}
	if one, four := slowdown(1), slowdown(4); four > 2 || one < 10 {
		t.Errorf("a small message takes %.1f times as long as alone in one queue, %.1f times in the first of four; want above 10, at most 2", one, four)
	}
}
