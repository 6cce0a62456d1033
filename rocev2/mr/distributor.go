// SPDX-License-Identifier: Apache-2.0

package mr

import "github.com/softroce/softroce-xdp/rocev2/verbs"

// Distributor is an optional interface of protection domains (verbs.PD): their NIC forwards what
// arrives in a distribution region (S2.7).
type Distributor interface {
	// Distribute registers memory as a distribution region with a group of 1 to 4 destinations. Peers
	// may write to it. The queue pairs of the group are RC and of this domain, one for each
	// destination.
	Distribute(b []byte, g Group) (DistributionRegion, error)
}

// DistributionRegion is a memory region whose data goes on to a group of destinations. Deregister
// returns an error that wraps verbs.ErrBusy while messages have no report.
type DistributionRegion interface {
	verbs.MR
	// Stats returns the counters.
	Stats() (DistributionStats, error)
}

// DistributionStats are the counters of a distribution region, in messages. The card has the same.
type DistributionStats struct {
	Arrived     uint64                  // messages that arrived in the region
	Refused     uint64                  // arrived messages that were not forwarded: 256 had no report yet
	Reports     uint64                  // reports that the origins have acknowledged
	ReportsLost uint64                  // reports that the origins have not acknowledged, since their queue pair ended
	Delivered   [MaxDestinations]uint64 // messages delivered by destination, in the order of the group
	Failed      [MaxDestinations]uint64
}
