// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/view"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/loader/inspect"
	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// parse reads a text as Prometheus does.
func parse(t *testing.T, text []byte) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	all, err := p.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return all
}

// odd is a name with what the format escapes, and a byte that is not UTF-8.
const odd = "a\"b\\c\nd\xff"

// host is a host with an interface whose agent serves a device, one without an agent, and two servers of a pool.
func host() *Set {
	var s Set
	s.Host("v1")
	s.Interfaces(2)
	s.Absent("gone0")
	s.Interface(&view.Status{
		Interface: "eth0", Attached: time.Unix(1_700_000_000, 0), Version: "v1", XDPMode: "native", Egress: "tcx", Pacer: "htb",
		PolicyMode: "robust", Clock: "monotonic", RateBps: 10_000_000_000, Destinations: 3, Stamped: 2,
		Agent:    view.Agent{PID: 7, Alive: true, HeartbeatAgeNs: 2_500_000},
		Counters: map[string]uint64{"rx_stamped": 12, "tx_stamped": 1 << 40}, Problems: []string{},
		Findings: []inspect.Finding{{Kind: inspect.Qdisc, Text: "the root qdisc is another one"}}, Repairs: map[inspect.Kind]int{inspect.Pins: 2},
		ServesNIC: true, NICAnswers: true,
		NIC: &device.Status{
			Processes: []device.Process{{PID: 1, QPs: 2, Connections: 3, MRs: 4, Bytes: 5}, {PID: 2, Connections: 30, MRs: 40, Bytes: 50}},
			All: []verbs.Counter{
				{Name: "rcvd_pkts", Value: 9, Text: "packets received for a queue pair"},
				{Name: "tx_retransmits", Text: "packets sent more than once"},
				{Name: "precredit_outstanding", Value: 64, Text: "of it, bytes unused at peers or in flight now"},
				{Name: "queue_pairs", Value: 2, Text: "queue pairs that exist now"},
			},
		},
	})
	s.Interface(&view.Status{
		Interface: "eth1", Attached: time.Unix(1_700_000_000, 0), Agent: view.Agent{HeartbeatAgeNs: 9_000_000_000},
		ServesNIC: true, Problems: []string{"no agent runs"},
	})
	s.Destinations(&view.Table{Interface: "eth0", Destinations: []view.Destination{
		{
			Address: "10.0.0.2", Stamps: true, TxNs: 5_000_000_000, RxNs: -4_999_900_000, RttNs: 1, RateBps: 1_000_000_000,
			Policy:    view.Policy{BaseValid: true, QueueingTxNs: 12_000, QueueingRxNs: 900},
			TxPackets: 1, TxBytes: 2, RxPackets: 3, RxBytes: 4, PSNRegressions: 5, NAKs: 6, RNRs: 7, CEs: 8, CNPs: 9, Dropped: 10,
		},
		{Address: "fd00::2", TxNs: 3, RttNs: 250_000},
		{Address: "10.0.0.9"},
	}}, 2)
	s.NoPool("10.0.0.9:7178")
	s.Pool("10.0.0.2:7178", &lease.Status{
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

// The text of a host, but for the counters of the data plane, is that of the file. UPDATE=1 writes it.
func TestText(t *testing.T) {
	const file = "testdata/host.prom"
	var got strings.Builder
	for line := range strings.Lines(string(host().Text())) {
		if !strings.Contains(line, "softroce_dataplane_") || strings.Contains(line, "x_stamped") {
			got.WriteString(line)
		}
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Error(diff)
	}
}

// value returns the sample with these labels, in the order of the family.
func value(t *testing.T, all map[string]*dto.MetricFamily, name string, labels ...string) float64 {
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

// Prometheus reads back what was put in, in its units.
func TestParsed(t *testing.T) {
	all := parse(t, host().Text())
	name := "a\"b\\c\nd\uFFFD"
	for _, c := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{0, "softroce_interface_up", []string{"gone0"}},
		{1, "softroce_interface_up", []string{"eth0"}},
		{1_700_000_000, "softroce_interface_attached_timestamp_seconds", []string{"eth0"}},
		{1, "softroce_interface_problems", []string{"eth1"}},
		{1, "softroce_interface_finding", []string{"eth0", "qdisc"}},
		{0, "softroce_interface_finding", []string{"eth1", "qdisc"}},
		{2, "softroce_interface_repairs_total", []string{"eth0", "pins"}},
		{0.0025, "softroce_agent_heartbeat_age_seconds", []string{"eth0"}},
		{0, "softroce_agent_up", []string{"eth1"}},
		{12, "softroce_dataplane_rx_stamped_total", []string{"eth0"}},
		{1 << 40, "softroce_dataplane_tx_stamped_total", []string{"eth0"}},
		{0, "softroce_dataplane_tx_paced_total", []string{"eth0"}}, // from the start, so that rate() sees the first packet
		{1, "softroce_device_up", []string{"eth0"}},
		{0, "softroce_device_up", []string{"eth1"}},
		{55, "softroce_device_registered_bytes", []string{"eth0"}},
		{0, "softroce_device_tx_retransmits_total", []string{"eth0"}},
		{0.0001, "softroce_destination_rtt_seconds", []string{"eth0", "10.0.0.2"}},
		{0.00025, "softroce_destination_rtt_seconds", []string{"eth0", "fd00::2"}},
		{0.0000009, "softroce_destination_queueing_delay_seconds", []string{"eth0", "10.0.0.2", "reverse"}},
		{17, "softroce_destination_congestion_marks_total", []string{"eth0", "10.0.0.2"}},
		{0, "softroce_pool_up", []string{"10.0.0.9:7178"}},
		{35 * 4096, "softroce_pool_leased_bytes", []string{"10.0.0.2:7178"}},
		{7 * 4096, "softroce_pool_revoked_bytes_total", []string{"10.0.0.2:7178"}},
		{0.3, "softroce_pool_node_period_seconds", []string{"10.0.0.2:7178", "one"}},
		{40, "softroce_pool_node_network_periods_total", []string{"10.0.0.2:7178", "one"}},
		{1, "softroce_pool_node_period_seconds", []string{"10.0.0.2:7178", name}}, // the first of both
		{1, "softroce_pool_node_predictor_info", []string{"10.0.0.2:7178", "one", "network"}},
	} {
		if got := value(t, all, c.name, c.labels...); got != c.want {
			t.Errorf("%s%q is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
}

// At most so many destinations are in the text, and nothing that was not measured.
func TestAbsent(t *testing.T) {
	text := string(host().Text())
	for _, not := range []string{"10.0.0.9\"", `queueing_delay_seconds{interface="eth0",address="fd00::2"`, `device_processes{interface="eth1"`} {
		if strings.Contains(text, not) {
			t.Errorf("%s is there", not)
		}
	}
	if n := len(parse(t, []byte(text))["softroce_pool_node_connected"].GetMetric()); n != 2 {
		t.Errorf("%d nodes, want 2", n)
	}
}

var units = regexp.MustCompile(`_(ns|us|ms|milliseconds|kb|mb|bits|bps|pct|percent)(_|$)`)

// The rules of https://prometheus.io/docs/practices/naming, for each family: those with names of their own, and
// one per counter.
func TestNames(t *testing.T) {
	all := Families()
	for _, r := range bpf.Reasons() {
		all = append(all, dataPlane(r))
	}
	for _, name := range []string{"rcvd_pkts", "queue_pairs", "precredit_outstanding"} {
		all = append(all, deviceCounter(verbs.Counter{Name: name, Text: "text"}))
	}
	seen := map[string]bool{}
	for _, f := range all {
		switch {
		case seen[f.Name]:
			t.Errorf("%s is there twice", f.Name)
		case !model.LegacyValidation.IsValidMetricName(f.Name) || !strings.HasPrefix(f.Name, "softroce_") || f.Name != strings.ToLower(f.Name):
			t.Errorf("%s is no name", f.Name)
		case (f.Type == "counter") != strings.HasSuffix(f.Name, "_total"):
			t.Errorf("%s is a %s", f.Name, f.Type)
		case f.Help == "" || strings.HasSuffix(f.Help, "."):
			t.Errorf("%s: help %q", f.Name, f.Help)
		case len(f.Labels) == 0 && f.Name != "softroce_interfaces":
			t.Errorf("%s has no label", f.Name)
		case units.MatchString(strings.Replace(f.Name, "bits_per_second", "", 1)):
			t.Errorf("%s is not in a base unit", f.Name)
		}
		seen[f.Name] = true
	}
}
