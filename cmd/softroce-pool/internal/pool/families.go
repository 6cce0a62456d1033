// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/mempool/lease"
)

// Families are the metrics, in the order of the text.
func Families() []cli.MetricFamily { return families }

var families cli.MetricFamilies

// Of a server of the memory pool.
var (
	poolUp       = families.Gauge("pool_up", "1 if the server of the pool answers", "server")
	poolCapacity = families.Gauge("pool_capacity_bytes", "memory that the server lends", "server")
	poolFree     = families.Gauge("pool_free_bytes", "memory that no node leases", "server")
	poolLeased   = families.Gauge("pool_leased_bytes", "memory that nodes lease", "server")
	poolClosing  = families.Gauge("pool_closing_bytes", "returned memory that is being zeroed", "server")
	poolBroken   = families.Gauge("pool_broken_bytes", "memory that is lost until the server restarts", "server")
	poolNodes    = families.Gauge("pool_nodes", "nodes that have joined", "server")

	poolJoins     = families.Counter("pool_joins", "nodes that joined", "server")
	poolResumes   = families.Counter("pool_resumes", "nodes that came back in time after a lost connection", "server")
	poolLost      = families.Counter("pool_lost_connections", "connections that ended although the node had not left", "server")
	poolExpired   = families.Counter("pool_expired_nodes", "nodes that did not come back in time", "server")
	poolNoReports = families.Counter("pool_missing_reports", "periods whose report did not come in time", "server")
	poolReturned  = families.Counter("pool_returned_bytes", "space that nodes returned", "server")
	poolRevoked   = families.Counter("pool_revoked_bytes", "space that was taken back because its deadline had passed", "server")
	poolStale     = families.Counter("pool_stale_messages", "reports and returns that came too late or named foreign space", "server")
)

// Of a node at a server of the memory pool.
var (
	nodeUp        = families.Gauge("pool_node_connected", "1 if the node is connected; 0: its space is kept for it", "server", "node")
	nodePeriod    = families.Gauge("pool_node_period_seconds", "length of the node's periods", "server", "node")
	nodeDemand    = families.Gauge("pool_node_demand_bytes", "demand of the last period", "server", "node")
	nodeUsed      = families.Gauge("pool_node_used_bytes", "leased space that the node accessed in the last period", "server", "node")
	nodeExpected  = families.Gauge("pool_node_expected_bytes", "predicted need of the next period", "server", "node")
	nodePlanned   = families.Gauge("pool_node_planned_bytes", "space that the node is to have", "server", "node")
	nodeLeased    = families.Gauge("pool_node_leased_bytes", "space that the node has", "server", "node")
	nodeReturning = families.Gauge("pool_node_returning_bytes", "leased space that the node has to return", "server", "node")
	nodePredictor = families.Gauge("pool_node_predictor_info", "1; the label predictor has the one that counts now", "server", "node", "predictor")
	nodePeriods   = families.Counter("pool_node_predicted_periods", "periods that were predicted", "server", "node")
	nodeByNetwork = families.Counter("pool_node_network_periods", "predicted periods that the neural network decided", "server", "node")
)

// samples has the samples of servers.
type samples struct{ cli.MetricSet }

// absent adds a server of the memory pool that does not answer.
func (s *samples) absent(at string) { s.Add(poolUp, 0, at) }

// server adds the state of a server of the memory pool, and its nodes.
func (s *samples) server(at string, p *lease.Status) {
	bytes := func(slabs int) float64 { return float64(slabs) * float64(p.SlabBytes) }
	leased := 0
	for _, n := range p.Nodes {
		leased += n.Slabs
	}
	s.Add(poolUp, 1, at)
	s.Add(poolCapacity, bytes(p.Slabs), at)
	s.Add(poolFree, bytes(p.Free), at)
	s.Add(poolLeased, bytes(leased), at)
	s.Add(poolClosing, bytes(p.Closing), at)
	s.Add(poolBroken, bytes(p.Broken), at)
	s.Add(poolNodes, float64(len(p.Nodes)), at)
	c := p.Counts
	s.Add(poolJoins, float64(c.Joins), at)
	s.Add(poolResumes, float64(c.Resumes), at)
	s.Add(poolLost, float64(c.Lost), at)
	s.Add(poolExpired, float64(c.Expired), at)
	s.Add(poolNoReports, float64(c.NoReports), at)
	s.Add(poolReturned, float64(c.Returned)*float64(p.SlabBytes), at)
	s.Add(poolRevoked, float64(c.Revoked)*float64(p.SlabBytes), at)
	s.Add(poolStale, float64(c.Stale), at)
	for _, n := range p.Nodes {
		s.Add(nodeUp, cli.MetricFlag(n.Connected), at, n.Name)
		s.Add(nodePeriod, cli.MetricSeconds(n.Length), at, n.Name)
		s.Add(nodeDemand, float64(n.Demand), at, n.Name)
		s.Add(nodeUsed, float64(n.Used), at, n.Name)
		s.Add(nodeExpected, float64(n.Expected.Need), at, n.Name)
		s.Add(nodePlanned, bytes(n.Planned), at, n.Name)
		s.Add(nodeLeased, bytes(n.Slabs), at, n.Name)
		s.Add(nodeReturning, bytes(n.Returning), at, n.Name)
		s.Add(nodePredictor, 1, at, n.Name, n.Expected.By)
		s.Add(nodePeriods, float64(n.Expected.Periods), at, n.Name)
		s.Add(nodeByNetwork, float64(n.Expected.ByNetwork), at, n.Name)
	}
}
