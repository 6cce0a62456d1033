// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Destination is a member of the group of a Distribution.
type Destination struct {
	QP     verbs.QP // own queue pair, RC, that is connected to the destination: Conn.QP
	Memory Remote   // memory at the destination, at least as long as the distribution region
}

// Distribution is memory whose data the NIC forwards (S2.7): a WRITE of a peer to it goes on to the
// same offset of each destination's memory. When each destination has the data or has failed, the
// origin receives a report as a message (ParseReport). It must not write to the same bytes before.
// Conn.Write of more than MaxMessage bytes is several WRITEs, and each has a report.
type Distribution struct {
	Region
	region mr.DistributionRegion
}

// ErrNoDistribution is the error of Distribute if the device has no distribution regions.
var ErrNoDistribution = fmt.Errorf("distribution regions: %w", errors.ErrUnsupported)

// Distribute registers memory as a distribution region with 1 to 4 destinations. The queue pairs of
// the destinations and those of the origins are in the protection domain. b must not be freed before
// Deregister, whose error wraps verbs.ErrBusy while messages have no report.
func Distribute(pd verbs.PD, b []byte, to ...Destination) (*Distribution, error) {
	p, ok := pd.(mr.Distributor)
	if !ok {
		return nil, wrap("distribute", nil, ErrNoDistribution)
	}
	var g mr.Group
	for i, d := range to {
		if d.QP == nil || d.Memory.Len < uint64(len(b)) {
			return nil, wrap("distribute", nil, fmt.Errorf("destination %d: give a queue pair, and memory of at least %d bytes; it has %d", i, len(b), d.Memory.Len))
		}
		g = append(g, mr.Destination{QPN: d.QP.QPN(), VA: d.Memory.Addr, RKey: d.Memory.RKey})
	}
	m, err := p.Distribute(b, g)
	if err != nil {
		return nil, wrap("distribute", nil, err)
	}
	return &Distribution{Region{m, b}, m}, nil
}

// DistributionStats are the counters of a Distribution, in messages.
type DistributionStats = mr.DistributionStats

// Stats returns the counters.
func (d *Distribution) Stats() (DistributionStats, error) { return d.region.Stats() }

// Report says what became of a WRITE to a Distribution: the payload of the message that its origin
// receives, for ParseReport.
type Report = mr.Report

// ParseReport parses the payload of a report.
func ParseReport(b []byte) (Report, error) { return mr.ParseReport(b) }
