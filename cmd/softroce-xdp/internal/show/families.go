// SPDX-License-Identifier: Apache-2.0

package show

import (
	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Families are the metrics with a name of their own, in the order of the text. There are also one counter per
// counter of the data plane and one per counter of a device.
func Families() []cli.MetricFamily { return families }

var families cli.MetricFamilies

// Of the host and of an attached interface.
var (
	buildInfo  = families.Gauge("build_info", "1; the label has the version of the command", "version")
	interfaces = families.Gauge("interfaces", "attached interfaces in this text")

	interfaceUp = families.Gauge("interface_up", "1 if the interface is attached and its status could be read", "interface")
	interfaceOf = families.Gauge("interface_info", "1; the labels have the version of the programs and the settings", "interface", "version", "xdp_mode", "egress", "pacer", "policy", "clock")
	attached    = families.Gauge("interface_attached_timestamp_seconds", "when the interface was attached, Unix time", "interface")
	problems    = families.Gauge("interface_problems", "problems that softroce-xdp status shows", "interface")
	finding     = families.Gauge("interface_finding", "1 if a part of what attach has set up is not in force ([kinds](#what-is-watched))", "interface", "kind")
	repairs     = families.Counter("interface_repairs", "repairs by the present agent", "interface", "kind")
	linkRate    = families.Gauge("interface_rate_bits_per_second", "rate of the link that the agent divides, bits per second", "interface")
	dests       = families.Gauge("interface_destinations", "destinations in the table", "interface")
	stamped     = families.Gauge("interface_stamped_destinations", "destinations that understand the stamp option", "interface")
	agentUp     = families.Gauge("agent_up", "1 if the agent of the interface runs", "interface")
	heartbeat   = families.Gauge("agent_heartbeat_age_seconds", "time since the last heartbeat of the agent", "interface")
)

// dataPlane is the metric of a counter of the data plane.
func dataPlane(r bpf.Reason) cli.MetricFamily {
	return cli.MetricFamily{Name: "softroce_dataplane_" + r.Name + "_total", Type: "counter", Help: r.Text, Labels: []string{"interface"}}
}

// Of the device that the agent of an interface serves.
var (
	deviceUp          = families.Gauge("device_up", "1 if the device that the agent serves answers; absent without attach --nic", "interface")
	deviceProcesses   = families.Gauge("device_processes", "processes that have opened the device", "interface")
	deviceConnections = families.Gauge("device_connections", "connections of these processes", "interface")
	deviceRegions     = families.Gauge("device_memory_regions", "memory regions of these processes", "interface")
	deviceBytes       = families.Gauge("device_registered_bytes", "memory that these processes have registered", "interface")
)

// deviceGauges are the counters of a device that also go down, and the names of their metrics.
var deviceGauges = map[string]string{"queue_pairs": "queue_pairs", "precredit_outstanding": "precredit_outstanding_bytes"}

// deviceCounter is the metric of a counter of a device.
func deviceCounter(c verbs.Counter) cli.MetricFamily {
	f := cli.MetricFamily{Name: "softroce_device_" + c.Name + "_total", Type: "counter", Help: c.Text, Labels: []string{"interface"}}
	if name, ok := deviceGauges[c.Name]; ok {
		f.Name, f.Type = "softroce_device_"+name, "gauge"
	}
	return f
}

// Of a destination.
var (
	destRate     = families.Gauge("destination_rate_bits_per_second", "rate of the destination, bits per second; 0: not paced", "interface", "address")
	destQueueing = families.Gauge("destination_queueing_delay_seconds", "queueing delay of the path to the destination (forward) or back (reverse); absent until there is a base delay", "interface", "address", "direction")
	destRTT      = families.Gauge("destination_rtt_seconds", "latest RTT, with the receiver turnaround; absent until it is measured", "interface", "address")
	destTxBytes  = families.Counter("destination_transmitted_bytes", "bytes of IP sent, without the option", "interface", "address")
	destTx       = families.Counter("destination_transmitted_packets", "packets sent", "interface", "address")
	destRxBytes  = families.Counter("destination_received_bytes", "bytes of IP received, without the option", "interface", "address")
	destRx       = families.Counter("destination_received_packets", "packets received", "interface", "address")
	destRetx     = families.Counter("destination_retransmissions", "times that the PSN of a flow went back: retransmissions", "interface", "address")
	destNAKs     = families.Counter("destination_naks", "NAKs received (PSN sequence error and others)", "interface", "address")
	destRNRs     = families.Counter("destination_rnr_naks", "RNR NAKs received (receiver not ready)", "interface", "address")
	destMarks    = families.Counter("destination_congestion_marks", "packets received with the CE mark, and CNPs", "interface", "address")
	destDropped  = families.Counter("destination_dropped_packets", "packets to the destination that the pacer police dropped", "interface", "address")
)
