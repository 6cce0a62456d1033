// SPDX-License-Identifier: Apache-2.0

package script

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// ParseMetrics reads a text as Prometheus does.
func ParseMetrics(t *testing.T, text []byte) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	all, err := p.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return all
}

// MetricValue returns the sample with these labels, in the order of the family.
func MetricValue(t *testing.T, all map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	t.Helper()
	for _, m := range all[name].GetMetric() {
		var have []string
		for _, l := range m.Label {
			have = append(have, l.GetValue())
		}
		if cmp.Equal(have, labels) {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	t.Errorf("there is no %s%q", name, labels)
	return 0
}

var notBaseUnits = regexp.MustCompile(`_(ns|us|ms|milliseconds|kb|mb|bits|bps|pct|percent)(_|$)`)

// MetricNames are the names of metrics that were checked.
type MetricNames map[string]bool

// Check tests that a family of metrics follows the rules of https://prometheus.io/docs/practices/naming.
func (n *MetricNames) Check(t *testing.T, name, kind, help string, labels []string) {
	t.Helper()
	if *n == nil {
		*n = MetricNames{}
	}
	switch {
	case (*n)[name]:
		t.Errorf("%s is there twice", name)
	case !model.LegacyValidation.IsValidMetricName(name) || !strings.HasPrefix(name, "softroce_") || name != strings.ToLower(name):
		t.Errorf("%s is no name", name)
	case (kind == "counter") != strings.HasSuffix(name, "_total"):
		t.Errorf("%s is a %s", name, kind)
	case help == "" || strings.HasSuffix(help, "."):
		t.Errorf("%s: help %q", name, help)
	case len(labels) == 0 && name != "softroce_interfaces":
		t.Errorf("%s has no label", name)
	case notBaseUnits.MatchString(strings.Replace(name, "bits_per_second", "", 1)):
		t.Errorf("%s is not in a base unit", name)
	}
	(*n)[name] = true
}

// Golden compares a text with a file. UPDATE=1 writes the file.
func Golden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}
