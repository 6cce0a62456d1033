// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

func read(t *testing.T, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("test.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const twoFlows = `name: two
topology: {kind: star, hosts: 3}
links: {host: 10Gbit/s}
traffic:
  - flows: {from: 1-2, to: 0}
measure: {to: 1ms, at: down 0, target: 10us}
criteria: {utilisation: ">= 0.95", queue-p99: "<= 2 target", loss: "<= 0.5%"}
seeds: [1, 2, 3]
`

func summary(s *scenario.Scenario, scheme string, metric string, values ...float64) *Summary {
	sum := &Summary{Scenario: s, Scheme: scheme}
	for i, v := range values {
		sum.Results = append(sum.Results, &Result{Scenario: s.Name, Scheme: scheme, Seed: uint64(i + 1),
			Values: map[string]float64{"utilisation": .97, "queue-p99": 15e3, "loss": 0, "queue-p50": 5e3}})
		sum.Results[i].Values[metric] = v
	}
	return sum
}

// A criterion is judged by the worst seed; what has none shows the median.
func TestVerdicts(t *testing.T) {
	s := read(t, twoFlows)
	unmeasured := summary(s, "d", "loss", 0)
	delete(unmeasured.Results[0].Values, "loss")
	got := Verdicts([]*Summary{
		summary(s, "a", "queue-p50", 1e3, 9e3, 2e3),
		summary(s, "b", "utilisation", .96, .9499, .99),
		summary(s, "c", "queue-p99", 20e3, 20.1e3, 1e3),
		unmeasured,
	})
	want := Table{
		Header: []string{"scheme", "utilisation", "queue-p50", "queue-p99", "loss", "verdict"},
		Rows: [][]string{
			{"a", "0.970", "2us", "15us", "0 %", "ok"},
			{"b", "0.949 !", "5us", "15us", "0 %", "MISSED utilisation"},
			{"c", "0.970", "5us", "20.1us !", "0 %", "MISSED queue-p99"},
			{"d", "0.970", "5us", "15us", "-", "MISSED loss"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct {
		metric string
		v      float64
		want   string
	}{
		{"utilisation", .94999, "0.949"}, {"jain", 1, "1.000"}, {"jain", .98, "0.980"}, {"loss", .00001, "< 0.01 %"}, {"loss", .0051, "0.51 %"},
		{"convergence", Never, "never"}, {"queue-p99", 50_000, "50us"}, {"slowdown-p99", 2.345, "2.35"},
	} {
		if got := Text(c.metric, c.v); got != c.want {
			t.Errorf("%s of %v is written %q, want %q", c.metric, c.v, got, c.want)
		}
	}
}

func TestBuckets(t *testing.T) {
	var messages []message
	for i := range 100 {
		messages = append(messages, message{bytes: 500, slowdown: float64(i + 1), oneRTT: i < 25})
	}
	messages = append(messages, message{bytes: 1000, slowdown: 1000}, message{bytes: 1001, slowdown: 7})
	got := buckets([]scenario.Size{500, 1000, 2000}, messages)
	want := []Bucket{
		{Bytes: 500, Count: 100, P50: 50, P95: 95, P99: 99, OneRTT: .25},
		{Bytes: 1000, Count: 1, P50: 1000, P95: 1000, P99: 1000},
		{Bytes: 2000, Count: 1, P50: 7, P95: 7, P99: 7},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got = buckets([]scenario.Size{500}, messages); len(got) != 2 || got[1].Bytes != 0 || got[1].Count != 2 {
		t.Errorf("larger than all: %+v", got)
	}
	if got = buckets([]scenario.Size{500}, nil); len(got) != 1 || got[0].Count != 0 {
		t.Errorf("none: %+v", got)
	}
}

func TestSlowdowns(t *testing.T) {
	s := read(t, twoFlows)
	sum := &Summary{Scenario: s, Scheme: "a"}
	for _, p99 := range []float64{3, 1, 2} {
		sum.Results = append(sum.Results, &Result{Buckets: []Bucket{{Bytes: 1000, Count: 10, P99: p99}, {Bytes: 2000}}})
	}
	want := Table{Header: []string{"scheme", "to 1KB", "to 2KB"}, Rows: [][]string{{"a", "2.00", "-"}}}
	if diff := cmp.Diff(want, Slowdowns([]*Summary{sum}, 99)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if !math.IsNaN(sum.Slowdown(1, 99)) {
		t.Error("a bucket without messages has a slowdown")
	}
}

func TestCSV(t *testing.T) {
	r := &Result{Scenario: "x", Scheme: "a", Seed: 3, Values: map[string]float64{"loss": .25, "convergence": Never},
		Flows: []FlowRate{{Src: 1, Dst: 0, Bps: 5e9}}, Buckets: []Bucket{{Bytes: 1000, Count: 1, P50: 2, P95: 2, P99: 2, OneRTT: 1}},
		Cost: Cost{Packets: 10, Hops: 20}}
	var b bytes.Buffer
	if err := WriteCSV(&b, []*Result{r}); err != nil {
		t.Fatal(err)
	}
	want := `scenario,scheme,seed,of,figure,value
x,a,3,,loss,0.25
x,a,3,flow 1-0,bps,5000000000
x,a,3,to 1KB,count,1
x,a,3,to 1KB,slowdown-p50,2
x,a,3,to 1KB,slowdown-p95,2
x,a,3,to 1KB,slowdown-p99,2
x,a,3,to 1KB,one-rtt,1
x,a,3,,packets,10
x,a,3,,hops,20
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
