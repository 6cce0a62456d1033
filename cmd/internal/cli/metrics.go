// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"strconv"
	"strings"
)

// The text exposition format, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format). The encoder of the
// Prometheus project (github.com/prometheus/common/expfmt) imports net/http and protobuf. It would be linked into
// softroce-xdp, and so into the agent, where it takes 1.0 to 2.7 MB of memory. The tests compare with it.

// MetricFamily is a metric of Prometheus.
type MetricFamily struct {
	Name   string
	Type   string // gauge or counter
	Help   string
	Labels []string
}

// MetricFamilies are metrics in the order of the text.
type MetricFamilies []MetricFamily

func (m *MetricFamilies) add(typ, name, help string, labels []string) MetricFamily {
	f := MetricFamily{Name: "softroce_" + name, Type: typ, Help: help, Labels: labels}
	*m = append(*m, f)
	return f
}

// Gauge adds a gauge.
func (m *MetricFamilies) Gauge(name, help string, labels ...string) MetricFamily {
	return m.add("gauge", name, help, labels)
}

// Counter adds a counter.
func (m *MetricFamilies) Counter(name, help string, labels ...string) MetricFamily {
	return m.add("counter", name+"_total", help, labels)
}

// MetricSet has samples by their families.
type MetricSet struct {
	order []*samples
	of    map[string]*samples
}

type samples struct {
	MetricFamily
	lines []string
	seen  map[string]bool // series that were written, by the labels
}

// Add adds a sample. A second one with the same labels is left out, as Prometheus refuses a text with both.
func (s *MetricSet) Add(f MetricFamily, value float64, labels ...string) {
	x := s.of[f.Name]
	if x == nil {
		if s.of == nil {
			s.of = map[string]*samples{}
		}
		x = &samples{MetricFamily: f, seen: map[string]bool{}}
		s.of[f.Name] = x
		s.order = append(s.order, x)
	}
	name := f.Name + f.labels(labels)
	if x.seen[name] {
		return
	}
	x.seen[name] = true
	x.lines = append(x.lines, name+" "+strconv.FormatFloat(value, 'g', -1, 64))
}

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// labels returns the labels of a sample in braces, with a value for each name.
func (f *MetricFamily) labels(values []string) string {
	if len(f.Labels) == 0 {
		return ""
	}
	pairs := make([]string, len(f.Labels))
	for i, name := range f.Labels {
		pairs[i] = name + `="` + escapeLabel.Replace(strings.ToValidUTF8(values[i], "\uFFFD")) + `"`
	}
	return "{" + strings.Join(pairs, ",") + "}"
}

// Text returns the samples in the exposition format, family by family.
func (s *MetricSet) Text() []byte {
	var b bytes.Buffer
	for _, x := range s.order {
		b.WriteString("# HELP " + x.Name + " " + escapeHelp.Replace(x.Help) + "\n")
		b.WriteString("# TYPE " + x.Name + " " + x.Type + "\n")
		for _, l := range x.lines {
			b.WriteString(l + "\n")
		}
	}
	return b.Bytes()
}

// MetricFlag is the value of what is either so or not.
func MetricFlag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// MetricSeconds is a time in seconds.
func MetricSeconds[T ~int64](ns T) float64 { return float64(ns) / 1e9 }
