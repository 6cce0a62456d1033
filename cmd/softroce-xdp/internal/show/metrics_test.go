// SPDX-License-Identifier: Apache-2.0

package show

import (
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cmd/internal/view"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/loader/inspect"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/script"
)

// sample is a host with an interface whose agent serves a device, and one without an agent.
func sample() *samples {
	var s samples
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
	return &s
}

// The text of a host, but for the counters of the data plane, is that of the file. UPDATE=1 writes it.
func TestText(t *testing.T) {
	var got strings.Builder
	for line := range strings.Lines(string(sample().Text())) {
		if !strings.Contains(line, "softroce_dataplane_") || strings.Contains(line, "x_stamped") {
			got.WriteString(line)
		}
	}
	script.Golden(t, "testdata/host.prom", got.String())
}

// Prometheus reads back what was put in, in its units.
func TestParsed(t *testing.T) {
	all := script.ParseMetrics(t, sample().Text())
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
	} {
		if got := script.MetricValue(t, all, c.name, c.labels...); got != c.want {
			t.Errorf("%s%q is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
}

// At most so many destinations are in the text, and nothing that was not measured.
func TestAbsent(t *testing.T) {
	text := string(sample().Text())
	for _, not := range []string{"10.0.0.9\"", `queueing_delay_seconds{interface="eth0",address="fd00::2"`, `device_processes{interface="eth1"`} {
		if strings.Contains(text, not) {
			t.Errorf("%s is there", not)
		}
	}
}

// Each family follows the rules: those with names of their own, and one per counter.
func TestNames(t *testing.T) {
	all := Families()
	for _, r := range bpf.Reasons() {
		all = append(all, dataPlane(r))
	}
	for _, name := range []string{"rcvd_pkts", "queue_pairs", "precredit_outstanding"} {
		all = append(all, deviceCounter(verbs.Counter{Name: name, Text: "text"}))
	}
	var names script.MetricNames
	for _, f := range all {
		names.Check(t, f.Name, f.Type, f.Help, f.Labels)
	}
}
