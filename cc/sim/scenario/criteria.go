// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/softroce/softroce-xdp/internal/texts"
)

// Metric is a figure of a run that a criterion can be about.
type Metric struct {
	Name  string
	Text  string
	units reader
}

// Metrics are all, in the order of tables.
var Metrics = []Metric{
	{"utilisation", "share of the bottleneck's bits that were sent while measured", shareUnits},
	{"jain", "Jain's index of the flows' payload while measured", shareUnits},
	{"queue-p50", "median queueing delay at the bottleneck", timeUnits},
	{"queue-p99", "99th percentile of the queueing delay at the bottleneck", timeUnits},
	{"loss", "share of the data packets that were dropped", shareUnits},
	{"convergence", "time until utilisation and fairness stay", timeUnits},
	{"start-utilisation", "share of the bottleneck's bits that were sent before that: from the start on", shareUnits},
	{"start-queue-p99", "99th percentile of the queueing delay at the bottleneck from the start on", timeUnits},
	{"start-loss", "share of the data packets that were dropped from the start on", shareUnits},
	{"slowdown-p50", "median of completion time over completion time alone", shareUnits},
	{"slowdown-p99", "99th percentile of the same", shareUnits},
	{"unfinished", "share of the messages that did not complete", shareUnits},
}

func metric(name string) (*Metric, error) {
	names := make([]string, len(Metrics))
	for i := range Metrics {
		if Metrics[i].Name == name {
			return &Metrics[i], nil
		}
		names[i] = Metrics[i].Name
	}
	return nil, texts.UnknownName(name, "metric", names)
}

// Criteria are conditions such as
//
//	utilisation: ">= 0.95"
//	queue-p99: "<= 2 target"
//	loss: "<= 0.5%"
type Criteria []Criterion

// Criterion is one of them.
type Criterion struct {
	Metric  string
	AtLeast bool // else at most
	Value   float64
	Text    string // text of the criterion, as it was written
	targets bool   // Value is in targets of the scenario
	line    int
}

func (c *Criteria) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: criteria are metrics with conditions, for example `utilisation: \">= 0.95\"`", n.Line)
	}
	for i := 0; i < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		m, err := metric(k.Value)
		if err != nil {
			return fmt.Errorf("line %d: %w", k.Line, err)
		}
		one, err := m.criterion(v.Value)
		if err != nil {
			return fmt.Errorf("line %d: %s: %w", v.Line, m.Name, err)
		}
		one.line = k.Line
		*c = append(*c, one)
	}
	return nil
}

func (m *Metric) criterion(s string) (Criterion, error) {
	c := Criterion{Metric: m.Name, Text: s}
	rest, ok := strings.CutPrefix(s, ">=")
	c.AtLeast = ok
	if !ok {
		if rest, ok = strings.CutPrefix(s, "<="); !ok {
			return c, fmt.Errorf("%q is no condition: write \">= VALUE\" or \"<= VALUE\"", s)
		}
	}
	var err error
	if number, ok := strings.CutSuffix(rest, "target"); ok && m.units.what == timeUnits.what {
		c.targets = true
		c.Value = 1
		if number = strings.TrimSpace(number); number != "" {
			c.Value, err = strconv.ParseFloat(number, 64)
		}
	} else {
		c.Value, err = m.units.parse(rest)
	}
	if err != nil {
		return c, fmt.Errorf("in %q: %w", s, err)
	}
	return c, nil
}

// String is the condition, with the value that "target" stands for.
func (c Criterion) String() string {
	if c.targets {
		return fmt.Sprintf("%s (%v)", c.Text, Time(c.Value))
	}
	return c.Text
}

// Holds says whether a value of the metric (shares as numbers, times in ns)
// fulfils the criterion.
func (c Criterion) Holds(v float64) bool {
	if c.AtLeast {
		return v >= c.Value
	}
	return v <= c.Value
}
