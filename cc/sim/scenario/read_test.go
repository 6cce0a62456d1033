// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// small is the least that makes a scenario.
const small = `name: small
topology: {kind: star, hosts: 3}
links: {host: 10Gbit/s}
traffic:
  - flows: {from: 1-2, to: 0}
measure: {to: 1ms}
`

func read(text string) (*Scenario, error) { return Parse("x.yaml", strings.NewReader(text)) }

func TestDefaults(t *testing.T) {
	got, err := read(small)
	if err != nil {
		t.Fatal(err)
	}
	want := &Scenario{
		Name: "small", Group: Control, Seeds: []uint64{1},
		Topology:  Topology{Kind: "star", Hosts: 3},
		Links:     Links{Host: 10e9, Trunk: 10e9, Delay: 1000},
		Switch:    Switch{Buffer: 32e6, Queues: 1},
		Transport: Transport{MTU: 1000, Recovery: "selective"},
		Traffic:   []Traffic{{Flows: &Flows{From: Hosts{List: []int{1, 2}}, To: Hosts{List: []int{0}}, Count: 1}}},
		Measure:   Measure{To: 1e6},
	}
	ignore := cmpopts.IgnoreUnexported(Hosts{}, Link{}, Scheme{}, Param{}, Criterion{})
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestEverything(t *testing.T) {
	got, err := read(`
name: all-of-it
title: All keys
about: text
group: completion
topology: {kind: dumbbell, hosts: 8}
links: {host: 25G, trunk: 100Gbit/s, delay: 1.5us, jitter: 10us, loss: 0.1%}
switch: {buffer: 16MiB, pfc: true}
transport: {mtu: 4096, recovery: go-back-n, rto: 1ms}
clocks: {offset: 10ms, drift: 50ppm, step: {host: 2, at: 1ms, by: -5ms}}
schemes: [fourcase, {name: swift, target: 25us, label: swift-25}]
traffic:
  - flows: {from: [0, 2-3], to: 4, bytes: 1MB, count: 2, start: 1us, each: 1ms}
  - on-off: {from: 1, to: 5, rate: 10G, on: 1ms, off: 2ms, start: 1ms, stop: 5ms}
events:
  - {at: 2ms, link: trunk 0 back, rate: 10G}
measure: {from: 2ms, to: 10ms, drain: 5ms, at: down 4, target: 20us, sample: 50us}
criteria: {utilisation: ">= 95%", queue-p99: "<= 2 target", convergence: <= 1ms, slowdown-p99: "<=2.5"}
seeds: [7, 8]
`)
	if err != nil {
		t.Fatal(err)
	}
	if got.Links.Loss != .001 || got.Switch.Buffer != 16<<20 || got.Clocks.Step.By != -5e6 || got.Links.Host != 25e9 {
		t.Errorf("quantities: %+v", got)
	}
	if e := got.Events[0].Link; e.String() != "trunk 0 back" {
		t.Errorf("link: %v", e)
	}
	if s := got.Schemes[1]; s.Name != "swift" || s.Label != "swift-25" || len(s.Params) != 1 || s.Params[0].Value != "25us" {
		t.Errorf("scheme: %+v", s)
	}
	// The last flow joins at 2.001 ms, the link changes at 2 ms.
	if got.Measure.Converge != 2_001_000 {
		t.Errorf("convergence is timed from %v", got.Measure.Converge)
	}
	if c := got.Criteria; c[0].Value != .95 || c[1].Value != 40e3 || c[1].AtLeast || c[2].Value != 1e6 || c[3].Value != 2.5 {
		t.Errorf("criteria: %+v", c)
	}
}

// Workloads end with the measured interval.
func TestWorkloads(t *testing.T) {
	got, err := read(strings.Replace(small, "flows: {from: 1-2, to: 0}", `workload: {sizes: hadoop, load: 50%, from: 100us}
  - incast: {senders: 2, bytes: 500KB, load: 0.02, to: 500us}`, 1))
	if err != nil {
		t.Fatal(err)
	}
	if got.Traffic[0].Workload.To != 1e6 || got.Traffic[1].Incast.To != 5e5 {
		t.Errorf("ends of workloads: %+v %+v", got.Traffic[0].Workload, got.Traffic[1].Incast)
	}
}

func TestCriterion(t *testing.T) {
	for _, c := range []struct {
		text string
		v    float64
		want bool
	}{{">= 0.95", .95, true}, {">= 0.95", .9499, false}, {"<= 0.5%", .005, true}, {"<= 0.5%", .0051, false}} {
		m, _ := metric("loss")
		got, err := m.criterion(c.text)
		if err != nil || got.Holds(c.v) != c.want {
			t.Errorf("%v %s: %v, %v", c.v, c.text, got.Holds(c.v), err)
		}
	}
}

// What is wrong gets an error that says where and what to write instead.
func TestRefusals(t *testing.T) {
	with := func(old, new string) string { return strings.Replace(small, old, new, 1) }
	for name, c := range map[string]struct{ text, want string }{
		"empty":             {"", "x.yaml: there is nothing in it"},
		"no mapping":        {"- a\n", "line 1: expected keys with values: name, title"},
		"not YAML":          {"a: [", "line 1: did not find expected node content"},
		"two documents":     {small + "---\nname: b\n", "more than one document"},
		"unknown key":       {with("links:", "link:"), `line 3: there is no key "link": did you mean links?`},
		"unknown inside":    {with("hosts: 3", "host: 3"), `line 2: there is no key "host": did you mean hosts?`},
		"far from any":      {with("links:", "zzzzzzzz:"), `line 3: there is no key "zzzzzzzz": choose name, title`},
		"unknown in a list": {with("to: 0", "too: 0"), `line 5: there is no key "too": did you mean to?`},
		"twice":             {small + "name: again\n", "line 7: name stands in line 1 already"},
		"no value":          {with("name: small", "name:"), "line 1: name needs a value"},
		"list for a value":  {with("star", "[star]"), "line 2: expected one value"},
		"value for a list":  {with("traffic:\n  - flows: {from: 1-2, to: 0}", "traffic: none"), "line 4: expected a list"},
		"rate":              {with("10Gbit/s", "10GB/s"), `line 3: "10GB/s" is no rate: write for example 100Gbit/s`},
		"time without unit": {with("to: 1ms", "to: 1"), `line 6: "1" is no time: write for example 500ns, 10us`},
		"no number":         {with("hosts: 3", "hosts: many"), `line 2: "many" is no whole number`},
		"no name":           {with("name: small", "name: A b"), `name: "A b": a name is lower case`},
		"kind":              {with("star", "sta"), `topology: kind: there is no topology "sta": did you mean star?`},
		"other's key":       {with("hosts: 3", "hosts: 3, hops: 2"), "a star has no hops, only hosts"},
		"too few hosts":     {with("hosts: 3", "hosts: 1"), "hosts: 1; a star needs 2 to"},
		"odd sides":         {with("kind: star", "kind: dumbbell"), "as many on the left as on the right"},
		"uneven leaves":     {with("kind: star, hosts: 3", "kind: leaf-spine, hosts: 3, per-leaf: 2, spines: 1"), "no multiple of per-leaf"},
		"odd k":             {with("kind: star, hosts: 3", "kind: fat-tree, k: 3"), "a fat tree's k is even"},
		"no such host":      {with("to: 0}", "to: 3}"), "line 5: there is no host 3: they are 0 to 2"},
		"to itself":         {with("from: 1-2, to: 0", "from: 0, to: 0"), "no pair of different hosts"},
		"hosts":             {with("from: 1-2", "from: one"), `line 5: "one" are no hosts`},
		"host twice":        {with("from: 1-2", "from: [1, 0-1]"), "host 1 stands twice"},
		"two in one":        {with("to: 0}", "to: 0}\n    incast: {senders: 1, bytes: 1B, load: 1%}"), "entry 1: needs exactly one of flows"},
		"workload":          {with("flows: {from: 1-2, to: 0}", "workload: {sizes: web, load: 50%}"), `"web" is no distribution`},
		"load":              {with("flows: {from: 1-2, to: 0}", "workload: {sizes: hadoop, load: 150%}"), "load: 1.5; must be above 0 and at most 1"},
		"incast":            {with("flows: {from: 1-2, to: 0}", "incast: {senders: 3, load: 1%, bytes: 1KB}"), "fewer senders than hosts (3)"},
		"cross traffic":     {with("to: 0}", "to: 0}\n  - on-off: {from: 2, to: 0, rate: 1G}"), "host 2 sends other traffic, too"},
		"no measure":        {with("to: 1ms", "from: 1ms"), "measure: to: how long"},
		"link":              {with("to: 1ms", "to: 1ms, at: left 0"), `line 6: "left 0" is no link: write down 0`},
		"no trunks":         {with("to: 1ms", "to: 1ms, at: trunk 0"), "a star has no numbered trunks"},
		"no such link":      {with("to: 1ms", "to: 1ms, at: down 3"), "there is no host 3"},
		"event":             {small + "events: [{at: 1us, link: up 0}]\n", "events: entry 1: rate is missing"},
		"metric":            {small + "criteria: {utilization: \">= 1\"}\n", `line 7: there is no metric "utilization": did you mean utilisation?`},
		"condition":         {small + "criteria: {jain: \"> 1\"}\n", `line 7: jain: "> 1" is no condition`},
		"condition's value": {small + "criteria: {jain: \">= 1ms\"}\n", `"1ms" is no share`},
		"no target":         {small + "criteria: {convergence: \"<= 2 target\"}\n", "measure: target, which is missing"},
		"queues":            {small + "switch: {queues: 7}\n", "switch: queues: 7; a switch has 1 to 6"},
		"no bottleneck":     {small + "criteria: {utilisation: \">= 1\"}\n", "utilisation needs measure: at"},
		"scheme twice":      {small + "schemes: [hpcc, hpcc]\n", `line 7: scheme "hpcc" stands twice`},
		"scheme without":    {small + "schemes: [{eta: 1}]\n", "line 7: a scheme is a name, or"},
		"transport":         {small + "transport: {recovery: gobackn}\n", "did you mean go-back-n?"},
		"mtu":               {small + "transport: {mtu: 9000}\n", "mtu: 9000 bytes"},
		"window":            {small + "transport: {window: 500B}\n", "window: 500B is less than a packet"},
		"clock":             {small + "clocks: {drift: -50ppm}\n", "write it without a sign"},
		"loss":              {with("10Gbit/s", "10Gbit/s, loss: 100%"), "loss: 1 of all packets"},
	} {
		_, err := read(c.text)
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "!!") || strings.Contains(err.Error(), "scenario.") {
			t.Errorf("%s: %v\nwant %s", name, err, c.want)
		}
	}
}

func TestQuantities(t *testing.T) {
	for text, want := range map[string]float64{"500ns": 500, "1.5us": 1500, "2 ms": 2e6, "-5ms": -5e6, "0": 0, "1s": 1e9} {
		if got, err := timeUnits.parse(text); err != nil || got != want {
			t.Errorf("time %q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]float64{"100Gbit/s": 100e9, "2.5g": 2.5e9, "10 Mbit": 10e6, "400000000": 4e8, "1bps": 1} {
		if got, err := rateUnits.parse(text); err != nil || got != want {
			t.Errorf("rate %q: %v, %v", text, got, err)
		}
	}
	for v, want := range map[Time]string{0: "0ns", 850: "850ns", 12_340: "12.3us", -1_250_000: "-1.25ms", 120e9: "120s"} {
		if got := v.String(); got != want {
			t.Errorf("%d ns is written %q, want %q", int64(v), got, want)
		}
	}
}

// Whatever comes, an error or a scenario that is valid.
func FuzzParse(f *testing.F) {
	f.Add(small)
	for _, name := range Names() {
		text, _ := Source(name)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := read(text); err == nil && s.validate() != nil {
			t.Fatalf("accepted and not valid: %v", s.validate())
		}
	})
}

// Without a target the criteria refer to three base RTTs, from delay and transmission time of
// the links and the size of a packet.
func TestTarget(t *testing.T) {
	const text = `name: target
topology: {kind: %s}
links: {host: %s, delay: %s}
traffic: [{flows: {from: 1, to: 0}}]
measure: {to: 1s, at: %s}
criteria: {queue-p99: "<= 2 target"}
`
	for _, c := range []struct {
		kind, rate, delay, at string
		rtt                   Time
	}{
		// 4 delays, and on 2 links 1082 bytes there and 86 back.
		{"star, hosts: 3", "100Gbit/s", "2us", "down 0", 8186},
		{"star, hosts: 3", "200Mbit/s", "250us", "down 0", 1_093_440},
		// The flows over one trunk cross three links.
		{"parking-lot, hops: 3", "100Gbit/s", "2us", "trunk 1", 12_279},
	} {
		s, err := read(fmt.Sprintf(text, c.kind, c.rate, c.delay, c.at))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.BaseRTT(); got != c.rtt || s.Measure.Target != 3*got || s.Criteria[0].Value != float64(6*got) {
			t.Errorf("%s of %s: base RTT %d, target %d, limit %v; want %d, three and six times that", c.kind, c.rate, got, s.Measure.Target, s.Criteria[0].Value, c.rtt)
		}
	}
}
