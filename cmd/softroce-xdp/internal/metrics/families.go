// SPDX-License-Identifier: Apache-2.0

// Package metrics converts what the commands show into the text format of Prometheus. It has no I/O of its own
// and reads no clock.
package metrics

import (
	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Families are the metrics with a name of their own, in the order of the text. There are also one counter per
// counter of the data plane and one per counter of a device.
func Families() []Family { return families }

var families []Family

func newFamily(typ, name, help string, labels []string) Family {
	f := Family{Name: "softroce_" + name, Type: typ, Help: help, Labels: labels}
	families = append(families, f)
	return f
}

func gauge(name, help string, labels ...string) Family { return newFamily("gauge", name, help, labels) }

func counter(name, help string, labels ...string) Family {
	return newFamily("counter", name+"_total", help, labels)
}

// Of the host and of an attached interface.
var (
	buildInfo  = gauge("build_info", "1; the label has the version of the command", "version")
	interfaces = gauge("interfaces", "attached interfaces in this text")

	interfaceUp = gauge("interface_up", "1 if the interface is attached and its status could be read", "interface")
	interfaceOf = gauge("interface_info", "1; the labels have the version of the programs and the settings", "interface", "version", "xdp_mode", "egress", "pacer", "policy", "clock")
	attached    = gauge("interface_attached_timestamp_seconds", "when the interface was attached, Unix time", "interface")
	problems    = gauge("interface_problems", "problems that softroce-xdp status shows", "interface")
	finding     = gauge("interface_finding", "1 if a part of what attach has set up is not in force ([kinds](#what-is-watched))", "interface", "kind")
	repairs     = counter("interface_repairs", "repairs by the present agent", "interface", "kind")
	linkRate    = gauge("interface_rate_bits_per_second", "rate of the link that the agent divides, bits per second", "interface")
	dests       = gauge("interface_destinations", "destinations in the table", "interface")
	stamped     = gauge("interface_stamped_destinations", "destinations that understand the stamp option", "interface")
	agentUp     = gauge("agent_up", "1 if the agent of the interface runs", "interface")
	heartbeat   = gauge("agent_heartbeat_age_seconds", "time since the last heartbeat of the agent", "interface")
)

// dataPlane is the metric of a counter of the data plane.
func dataPlane(r bpf.Reason) Family {
	return Family{Name: "softroce_dataplane_" + r.Name + "_total", Type: "counter", Help: r.Text, Labels: []string{"interface"}}
}

// Of the device that the agent of an interface serves.
var (
	deviceUp          = gauge("device_up", "1 if the device that the agent serves answers; absent without attach --nic", "interface")
	deviceProcesses   = gauge("device_processes", "processes that have opened the device", "interface")
	deviceConnections = gauge("device_connections", "connections of these processes", "interface")
	deviceRegions     = gauge("device_memory_regions", "memory regions of these processes", "interface")
	deviceBytes       = gauge("device_registered_bytes", "memory that these processes have registered", "interface")
)

// deviceGauges are the counters of a device that also go down, and the names of their metrics.
var deviceGauges = map[string]string{"queue_pairs": "queue_pairs", "precredit_outstanding": "precredit_outstanding_bytes"}

// deviceCounter is the metric of a counter of a device.
func deviceCounter(c verbs.Counter) Family {
	f := Family{Name: "softroce_device_" + c.Name + "_total", Type: "counter", Help: c.Text, Labels: []string{"interface"}}
	if name, ok := deviceGauges[c.Name]; ok {
		f.Name, f.Type = "softroce_device_"+name, "gauge"
	}
	return f
}

// Of a destination.
var (
	destRate     = gauge("destination_rate_bits_per_second", "rate that the policy allows, bits per second; 0: not paced", "interface", "address")
	destQueueing = gauge("destination_queueing_delay_seconds", "queueing delay of the path to the destination (forward) or back (reverse); absent until there is a base delay", "interface", "address", "direction")
	destRTT      = gauge("destination_rtt_seconds", "latest RTT, with the receiver turnaround; absent until it is measured", "interface", "address")
	destTxBytes  = counter("destination_transmitted_bytes", "bytes of IP sent, without the option", "interface", "address")
	destTx       = counter("destination_transmitted_packets", "packets sent", "interface", "address")
	destRxBytes  = counter("destination_received_bytes", "bytes of IP received, without the option", "interface", "address")
	destRx       = counter("destination_received_packets", "packets received", "interface", "address")
	destRetx     = counter("destination_retransmissions", "times that the PSN of a flow went back: retransmissions", "interface", "address")
	destNAKs     = counter("destination_naks", "NAKs received (PSN sequence error and others)", "interface", "address")
	destRNRs     = counter("destination_rnr_naks", "RNR NAKs received (receiver not ready)", "interface", "address")
	destMarks    = counter("destination_congestion_marks", "packets received with the CE mark, and CNPs", "interface", "address")
	destDropped  = counter("destination_dropped_packets", "packets to the destination that the pacer police dropped", "interface", "address")
)

// Of a server of the memory pool.
var (
	poolUp       = gauge("pool_up", "1 if the server of the pool answers", "server")
	poolCapacity = gauge("pool_capacity_bytes", "memory that the server lends", "server")
	poolFree     = gauge("pool_free_bytes", "memory that no node leases", "server")
	poolLeased   = gauge("pool_leased_bytes", "memory that nodes lease", "server")
	poolClosing  = gauge("pool_closing_bytes", "returned memory that is being zeroed", "server")
	poolBroken   = gauge("pool_broken_bytes", "memory that is lost until the server restarts", "server")
	poolNodes    = gauge("pool_nodes", "nodes that have joined", "server")

	poolJoins     = counter("pool_joins", "nodes that joined", "server")
	poolResumes   = counter("pool_resumes", "nodes that came back in time after a lost connection", "server")
	poolLost      = counter("pool_lost_connections", "connections that ended although the node had not left", "server")
	poolExpired   = counter("pool_expired_nodes", "nodes that did not come back in time", "server")
	poolNoReports = counter("pool_missing_reports", "periods whose report did not come in time", "server")
	poolReturned  = counter("pool_returned_bytes", "space that nodes returned", "server")
	poolRevoked   = counter("pool_revoked_bytes", "space that was taken back because its deadline had passed", "server")
	poolStale     = counter("pool_stale_messages", "reports and returns that came too late or named foreign space", "server")
)

// Of a node at a server of the memory pool.
var (
	nodeUp        = gauge("pool_node_connected", "1 if the node is connected; 0: its space is kept for it", "server", "node")
	nodePeriod    = gauge("pool_node_period_seconds", "length of the node's periods", "server", "node")
	nodeDemand    = gauge("pool_node_demand_bytes", "demand of the last period", "server", "node")
	nodeUsed      = gauge("pool_node_used_bytes", "leased space that the node accessed in the last period", "server", "node")
	nodeExpected  = gauge("pool_node_expected_bytes", "predicted need of the next period", "server", "node")
	nodePlanned   = gauge("pool_node_planned_bytes", "space that the node is to have", "server", "node")
	nodeLeased    = gauge("pool_node_leased_bytes", "space that the node has", "server", "node")
	nodeReturning = gauge("pool_node_returning_bytes", "leased space that the node has to return", "server", "node")
	nodePredictor = gauge("pool_node_predictor_info", "1; the label predictor has the one that counts now", "server", "node", "predictor")
	nodePeriods   = counter("pool_node_predicted_periods", "periods that were predicted", "server", "node")
	nodeByNetwork = counter("pool_node_network_periods", "predicted periods that the neural network decided", "server", "node")
)
