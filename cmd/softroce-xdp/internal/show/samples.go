// SPDX-License-Identifier: Apache-2.0

package show

import (
	"slices"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/view"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/loader/inspect"
)

// samples has the samples of this host.
type samples struct{ cli.MetricSet }

// Host adds the version of the command.
func (s *samples) Host(version string) { s.Add(buildInfo, 1, version) }

// Interfaces adds how many interfaces there are.
func (s *samples) Interfaces(n int) { s.Add(interfaces, float64(n)) }

// Absent adds an interface whose status could not be read.
func (s *samples) Absent(name string) { s.Add(interfaceUp, 0, name) }

// Interface adds an attached interface, its data plane, its agent, and the device that the agent serves.
func (s *samples) Interface(st *view.Status) {
	name := st.Interface
	s.Add(interfaceUp, 1, name)
	s.Add(interfaceOf, 1, name, st.Version, string(st.XDPMode), string(st.Egress), string(st.Pacer), st.PolicyMode, string(st.Clock))
	s.Add(attached, float64(st.Attached.Unix()), name)
	s.Add(problems, float64(len(st.Problems)), name)
	for _, k := range inspect.Kinds() {
		there := slices.ContainsFunc(st.Findings, func(f inspect.Finding) bool { return f.Kind == k })
		s.Add(finding, cli.MetricFlag(there), name, string(k))
	}
	for _, k := range inspect.RepairedKinds() {
		s.Add(repairs, float64(st.Repairs[k]), name, string(k))
	}
	s.Add(linkRate, float64(st.RateBps), name)
	s.Add(dests, float64(st.Destinations), name)
	s.Add(stamped, float64(st.Stamped), name)
	s.Add(agentUp, cli.MetricFlag(st.Agent.Alive), name)
	s.Add(heartbeat, cli.MetricSeconds(st.Agent.HeartbeatAgeNs), name)
	for _, r := range bpf.Reasons() {
		s.Add(dataPlane(r), float64(st.Counters[r.Name]), name)
	}
	if !st.ServesNIC {
		return
	}
	s.Add(deviceUp, cli.MetricFlag(st.NICAnswers), name)
	if st.NICAnswers {
		s.device(name, st.NIC)
	}
}

func (s *samples) device(name string, d *device.Status) {
	var connections, regions, bytes uint64
	for _, p := range d.Processes {
		connections, regions, bytes = connections+p.Connections, regions+p.MRs, bytes+p.Bytes
	}
	s.Add(deviceProcesses, float64(len(d.Processes)), name)
	s.Add(deviceConnections, float64(connections), name)
	s.Add(deviceRegions, float64(regions), name)
	s.Add(deviceBytes, float64(bytes), name)
	for _, c := range d.All {
		s.Add(deviceCounter(c), float64(c.Value), name)
	}
}

// Destinations adds the first destinations of a table, at most n.
func (s *samples) Destinations(t *view.Table, n int) {
	for i := range t.Destinations[:min(n, len(t.Destinations))] {
		d := &t.Destinations[i]
		s.Add(destRate, float64(d.RateBps), t.Interface, d.Address)
		if d.Policy.BaseValid {
			s.Add(destQueueing, cli.MetricSeconds(d.Policy.QueueingTxNs), t.Interface, d.Address, "forward")
			s.Add(destQueueing, cli.MetricSeconds(d.Policy.QueueingRxNs), t.Interface, d.Address, "reverse")
		}
		if rtt := rttNs(d); rtt != 0 {
			s.Add(destRTT, cli.MetricSeconds(rtt), t.Interface, d.Address)
		}
		for _, c := range []struct {
			cli.MetricFamily
			value uint64
		}{
			{destTxBytes, d.TxBytes}, {destTx, d.TxPackets}, {destRxBytes, d.RxBytes}, {destRx, d.RxPackets},
			{destRetx, d.PSNRegressions}, {destNAKs, d.NAKs}, {destRNRs, d.RNRs}, {destMarks, d.CEs + d.CNPs}, {destDropped, d.Dropped},
		} {
			s.Add(c.MetricFamily, float64(c.value), t.Interface, d.Address)
		}
	}
}

// rttNs returns the RTT of a destination (docs/reference/tables.md), 0 if it is not known. The times of the two directions
// contain the offset of the clocks, and their sum does not.
func rttNs(d *view.Destination) int64 {
	if d.Stamps && (d.TxNs != 0 || d.RxNs != 0) {
		return d.TxNs + d.RxNs
	}
	return d.RttNs
}
