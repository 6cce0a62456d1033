// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/view"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/loader/inspect"
	"github.com/softroce/softroce-xdp/mempool/lease"
)

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func seconds[T ~int64](ns T) float64 { return float64(ns) / 1e9 }

// Host adds the version of the command.
func (s *Set) Host(version string) { s.add(buildInfo, 1, version) }

// Interfaces adds how many interfaces there are.
func (s *Set) Interfaces(n int) { s.add(interfaces, float64(n)) }

// Absent adds an interface whose status could not be read.
func (s *Set) Absent(name string) { s.add(interfaceUp, 0, name) }

// Interface adds an attached interface, its data plane, its agent, and the device that the agent serves.
func (s *Set) Interface(st *view.Status) {
	name := st.Interface
	s.add(interfaceUp, 1, name)
	s.add(interfaceOf, 1, name, st.Version, string(st.XDPMode), string(st.Egress), string(st.Pacer), st.PolicyMode, string(st.Clock))
	s.add(attached, float64(st.Attached.Unix()), name)
	s.add(problems, float64(len(st.Problems)), name)
	for _, k := range inspect.Kinds() {
		there := slices.ContainsFunc(st.Findings, func(f inspect.Finding) bool { return f.Kind == k })
		s.add(finding, flag(there), name, string(k))
	}
	for _, k := range inspect.RepairedKinds() {
		s.add(repairs, float64(st.Repairs[k]), name, string(k))
	}
	s.add(linkRate, float64(st.RateBps), name)
	s.add(dests, float64(st.Destinations), name)
	s.add(stamped, float64(st.Stamped), name)
	s.add(agentUp, flag(st.Agent.Alive), name)
	s.add(heartbeat, seconds(st.Agent.HeartbeatAgeNs), name)
	for _, r := range bpf.Reasons() {
		s.add(dataPlane(r), float64(st.Counters[r.Name]), name)
	}
	if !st.ServesNIC {
		return
	}
	s.add(deviceUp, flag(st.NICAnswers), name)
	if st.NICAnswers {
		s.device(name, st.NIC)
	}
}

func (s *Set) device(name string, d *device.Status) {
	var connections, regions, bytes uint64
	for _, p := range d.Processes {
		connections, regions, bytes = connections+p.Connections, regions+p.MRs, bytes+p.Bytes
	}
	s.add(deviceProcesses, float64(len(d.Processes)), name)
	s.add(deviceConnections, float64(connections), name)
	s.add(deviceRegions, float64(regions), name)
	s.add(deviceBytes, float64(bytes), name)
	for _, c := range d.All {
		s.add(deviceCounter(c), float64(c.Value), name)
	}
}

// Destinations adds the first destinations of a table, at most n.
func (s *Set) Destinations(t *view.Table, n int) {
	for i := range t.Destinations[:min(n, len(t.Destinations))] {
		d := &t.Destinations[i]
		s.add(destRate, float64(d.RateBps), t.Interface, d.Address)
		if d.Policy.BaseValid {
			s.add(destQueueing, seconds(d.Policy.QueueingTxNs), t.Interface, d.Address, "forward")
			s.add(destQueueing, seconds(d.Policy.QueueingRxNs), t.Interface, d.Address, "reverse")
		}
		if rtt := rttNs(d); rtt != 0 {
			s.add(destRTT, seconds(rtt), t.Interface, d.Address)
		}
		for _, c := range []struct {
			Family
			value uint64
		}{
			{destTxBytes, d.TxBytes}, {destTx, d.TxPackets}, {destRxBytes, d.RxBytes}, {destRx, d.RxPackets},
			{destRetx, d.PSNRegressions}, {destNAKs, d.NAKs}, {destRNRs, d.RNRs}, {destMarks, d.CEs + d.CNPs}, {destDropped, d.Dropped},
		} {
			s.add(c.Family, float64(c.value), t.Interface, d.Address)
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

// NoPool adds a server of the memory pool that does not answer.
func (s *Set) NoPool(server string) { s.add(poolUp, 0, server) }

// Pool adds the state of a server of the memory pool, and its nodes.
func (s *Set) Pool(server string, p *lease.Status) {
	bytes := func(slabs int) float64 { return float64(slabs) * float64(p.SlabBytes) }
	leased := 0
	for _, n := range p.Nodes {
		leased += n.Slabs
	}
	s.add(poolUp, 1, server)
	s.add(poolCapacity, bytes(p.Slabs), server)
	s.add(poolFree, bytes(p.Free), server)
	s.add(poolLeased, bytes(leased), server)
	s.add(poolClosing, bytes(p.Closing), server)
	s.add(poolBroken, bytes(p.Broken), server)
	s.add(poolNodes, float64(len(p.Nodes)), server)
	c := p.Counts
	s.add(poolJoins, float64(c.Joins), server)
	s.add(poolResumes, float64(c.Resumes), server)
	s.add(poolLost, float64(c.Lost), server)
	s.add(poolExpired, float64(c.Expired), server)
	s.add(poolNoReports, float64(c.NoReports), server)
	s.add(poolReturned, float64(c.Returned)*float64(p.SlabBytes), server)
	s.add(poolRevoked, float64(c.Revoked)*float64(p.SlabBytes), server)
	s.add(poolStale, float64(c.Stale), server)
	for _, n := range p.Nodes {
		s.add(nodeUp, flag(n.Connected), server, n.Name)
		s.add(nodePeriod, seconds(n.Length), server, n.Name)
		s.add(nodeDemand, float64(n.Demand), server, n.Name)
		s.add(nodeUsed, float64(n.Used), server, n.Name)
		s.add(nodeExpected, float64(n.Expected.Need), server, n.Name)
		s.add(nodePlanned, bytes(n.Planned), server, n.Name)
		s.add(nodeLeased, bytes(n.Slabs), server, n.Name)
		s.add(nodeReturning, bytes(n.Returning), server, n.Name)
		s.add(nodePredictor, 1, server, n.Name, n.Expected.By)
		s.add(nodePeriods, float64(n.Expected.Periods), server, n.Name)
		s.add(nodeByNetwork, float64(n.Expected.ByNetwork), server, n.Name)
	}
}
