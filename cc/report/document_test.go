// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/xml"
	"slices"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/cc/sim/experiment"
)

const controlText = `name: incast
title: Incast
about: All at once.
topology: {kind: star, hosts: 3}
links: {host: 10Gbit/s}
traffic:
  - flows: {from: 1-2, to: 0}
measure: {to: 1ms, at: down 0, target: 10us, sample: 100us}
criteria: {utilisation: ">= 0.95", loss: "<= 0.5%"}
`

func control(t *testing.T, schemes map[string]float64, order ...string) (all []*experiment.Summary) {
	s := parse(t, controlText)
	for _, name := range order {
		series := &experiment.Series{FlowBps: make([][]float64, 2)}
		for i := range 10 {
			series.AtNs = append(series.AtNs, int64(i+1)*100_000)
			series.QueueNs = append(series.QueueNs, float64(1000*i))
			for f := range series.FlowBps {
				series.FlowBps[f] = append(series.FlowBps[f], 5e9)
			}
		}
		all = append(all, &experiment.Summary{Scenario: s, Scheme: name, Results: []*experiment.Result{{
			Scheme: name, Values: map[string]float64{"utilisation": schemes[name], "loss": 0}, Series: series}}})
	}
	return all
}

// The document says plainly who misses what; nothing in it is decided beforehand.
func TestDocument(t *testing.T) {
	s, bySize := parse(t, completionText), parse(t, completionText+"switch: {queues: 4}\n")
	in := Input{
		Summaries: append(control(t, map[string]float64{fourcase: .9, "hpcc": .96}, fourcase, "hpcc"),
			completion(s, fourcase, 1, 2, 3, 4), completion(s, oneQueue, 1, 1.5, 3, 6), completion(s, "hpcc", 1, 1, 3, 4),
			completion(bySize, fourcase, 1, 2, 3, 4), completion(bySize, lowPriority, 1, 2, 2, 4), completion(bySize, precredit, 1, 1.5, 3, 4),
			completion(bySize, "hpcc", 1, 3, 3, 4)),
		Validation: []Row{{ID: "V1", What: "short flows", Scheme: "hpcc", Paper: Range{Low: 1.9, High: 1.9}, Ours: 2, OK: true}},
		Sources:    "0123456789abcdef",
		About:      map[string]string{"hpcc": "telemetry | windows"},
	}
	d := New(in)
	var b bytes.Buffer
	if err := d.WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"- Incast, fourcase: utilisation is 0.900, should be >= 0.95; hpcc is",
		"| Incast | MISSED utilisation 0.900 | ok |",
		"| all criteria held in | 0 of 1 | 1 of 1 |",
		"| fourcase | 0.900 ! | 0 % | MISSED utilisation |",
		"Criteria: utilisation >= 0.95, loss <= 0.5%.",
		"![Incast: rates and queue over time, by scheme](img/cc-incast.svg)",
		"hadoop at 50 %, 110 messages, median:",
		"| fourcase-precredit | 1.50 | 4.00 |",
		"| messages in all seeds | 100 | 10 |",
		"Completion times of `fourcase-precredit`, the same queues by size for all",
		"for messages of less than one BDP: holds in all 1 cases",
		"for messages of less than one BDP: holds in 0 of 1 cases",
		"| hadoop at 50 % | all | 80.0 % of 100 | 1.50 | 3.00 | 4.00 | 3.00 | 4.00 |",
		"- one data queue: of 2 cases 1 are slower with pre-credit by more than 5 %, and 0 faster",
		"- hadoop at 50 %, to 1MB, percentile 99: 6.00 with pre-credit, 4.00 without (+50 %)",
		"- hadoop at 50 %, to 1MB, percentile 50: 3.00 with pre-credit, 2.00 without (+50 %)",
		"- Long flows: all criteria hold in 0 (fourcase), 1 (hpcc) of the 1 scenarios.",
		"- fourcase misses \"Incast\" (utilisation).",
		"80.0 % lose no round trip with four-case alone, 80.0 % with queues by size",
		"Seeds are 0.",
		"| V1 | short flows | hpcc | 1.9 | 2 | 1.05 | agrees |",
		"Sources: 0123456789abcdef -->",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the document lacks %q", want)
		}
	}
	if strings.Contains(text, "no value") || strings.Contains(text, "\n\n\n") {
		t.Errorf("gaps in the document:\n%s", text)
	}
	for _, name := range []string{"cc-heatmap.svg", "cc-incast.svg", "cc-fct-hadoop.svg", "cc-queues-hadoop.svg"} {
		if !slices.ContainsFunc(d.Plots, func(p Plot) bool { return p.Name == name }) {
			t.Errorf("there is no picture %s", name)
		}
	}
	for _, p := range d.Plots {
		var b bytes.Buffer
		if err := p.WriteSVG(&b); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		} else if err := xml.Unmarshal(b.Bytes(), new(struct{})); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if !strings.HasSuffix(p.Name, ".svg") {
			t.Errorf("%s is an SVG picture", p.Name)
		}
		if !strings.Contains(text, "(img/"+p.Name+")") {
			t.Errorf("%s is not in the document", p.Name)
		}
	}
}
