// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/testenv/lab/script"
)

// odd is a name with what the format escapes, and a byte that is not UTF-8.
const odd = "a\"b\\c\nd\xff"

// twoServers are the metrics of two servers of a pool, of which one does not answer.
func twoServers() *samples {
	var s samples
	s.absent("10.0.0.9:7178")
	s.server("10.0.0.2:7178", &lease.Status{
		SlabBytes: 4096, Slabs: 100, Free: 60, Closing: 3, Broken: 2,
		Counts: lease.Counts{Joins: 1, Resumes: 2, Lost: 3, Expired: 4, NoReports: 5, Returned: 6, Revoked: 7, Stale: 8},
		Nodes: []lease.NodeStatus{
			{Name: "one", Connected: true, Length: 300 * time.Millisecond, Demand: 1 << 20, Used: 1 << 19, Planned: 30, Slabs: 25, Returning: 1,
				Expected: lease.Prediction{By: "network", Need: 1 << 18, Periods: 50, ByNetwork: 40}},
			{Name: odd, Length: time.Second, Slabs: 10, Expected: lease.Prediction{By: "last"}},
			{Name: odd, Length: 9 * time.Second, Slabs: 0}, // a server that lists a node twice
		},
	})
	return &s
}

// The text is that of the file. UPDATE=1 writes it.
func TestMetricsText(t *testing.T) {
	script.Golden(t, "testdata/pool.prom", string(twoServers().Text()))
}

// Prometheus reads back what was put in, in its units.
func TestMetricsParsed(t *testing.T) {
	all := script.ParseMetrics(t, twoServers().Text())
	name := "a\"b\\c\nd\uFFFD"
	for _, c := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{0, "softroce_pool_up", []string{"10.0.0.9:7178"}},
		{35 * 4096, "softroce_pool_leased_bytes", []string{"10.0.0.2:7178"}},
		{7 * 4096, "softroce_pool_revoked_bytes_total", []string{"10.0.0.2:7178"}},
		{0.3, "softroce_pool_node_period_seconds", []string{"10.0.0.2:7178", "one"}},
		{40, "softroce_pool_node_network_periods_total", []string{"10.0.0.2:7178", "one"}},
		{1, "softroce_pool_node_period_seconds", []string{"10.0.0.2:7178", name}}, // the first of both
		{1, "softroce_pool_node_predictor_info", []string{"10.0.0.2:7178", "one", "network"}},
	} {
		if got := script.MetricValue(t, all, c.name, c.labels...); got != c.want {
			t.Errorf("%s%q is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
	if n := len(all["softroce_pool_node_connected"].GetMetric()); n != 2 {
		t.Errorf("%d nodes, want 2", n)
	}
}

// Each family follows the rules.
func TestMetricsNames(t *testing.T) {
	var names script.MetricNames
	for _, f := range Families() {
		names.Check(t, f.Name, f.Type, f.Help, f.Labels)
	}
}
