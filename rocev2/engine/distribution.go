// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Distribution is the part of a distribution region (S2.7) that belongs to a core: a WRITE of a peer to the region
// goes on to a group of destinations. Package mr decides what is sent (mr.Distribution), distribution_run.go sends it.
//
// The work requests of distributions have places of their own in the send queues of the group's queue
// pairs and of the origin's: qp.MaxInternal in each. While these are in use they wait.
type Distribution struct {
	core    *Core
	forward *mr.Distribution // nil before the region is complete
	pd      uint32           // protection domain of the region and of the group
	group   map[uint32]*QP   // queue pairs by number, as a number may get another owner
	origins []*internalSends // sends of the messages without a report, in their order
	unsent  []unsentReport   // reports whose send queue was full
	ended   []endedSend      // work requests that completed since the last run
	queued  bool             // the distribution is in distributor.queue
	closed  bool             // Close was called: nothing is forwarded any more
	stats   mr.DistributionStats
}

// Distribute connects a zero Distribution with a region and the queue pairs of its group, which are of the region's
// protection domain. The region has Arrived as its mr.Spec.Arrived.
func (e *Core) Distribute(d *Distribution, r *mr.Region, pd uint32, g mr.Group) (err error) {
	d.core = e
	group := map[uint32]*QP{}
	for i, to := range g {
		x := e.qps.Lookup(to.QPN)
		if x == nil || x.typ != verbs.RC || x.q.Config().PD != pd {
			return fmt.Errorf("nic: destination %d of the group: %d is no RC queue pair of the region's protection domain", i, to.QPN)
		}
		if x.ooo != nil {
			return fmt.Errorf("nic: destination %d of the group: queue pair %d is in out-of-order mode: choose one without", i, to.QPN)
		}
		group[to.QPN] = x
	}
	forward, err := mr.NewDistribution(g, r.VA(), r.Len(), r.LKey())
	if err != nil {
		return err
	}
	d.pd, d.group, d.forward = pd, group, forward
	if e.distributor == nil {
		e.distributor = &distributor{e: e}
	}
	return nil
}

// Renew has the distribution send by a queue pair that has taken the number of one of its group, which was removed. One that
// could not be in the group is left out: messages to it fail.
func (d *Distribution) Renew(x *QP) {
	if _, ok := d.group[x.num]; ok && x.typ == verbs.RC && x.q.Config().PD == d.pd && x.ooo == nil {
		d.group[x.num] = x
	}
}

// Stats returns the counters.
func (d *Distribution) Stats() mr.DistributionStats { return d.stats }

// Close ends the forwarding of messages. The error wraps verbs.ErrBusy while messages have no report.
func (d *Distribution) Close() error {
	if !d.forward.Idle() || len(d.unsent) > 0 {
		return fmt.Errorf("nic: the distribution region is %w: messages have no report yet; wait, or destroy the queue pairs of destinations that do not respond and of origins that take no reports", verbs.ErrBusy)
	}
	d.closed = true
	return nil
}

// Settled reports whether the reports of all messages that have arrived have ended.
func (d *Distribution) Settled() bool {
	return d.stats.Arrived-d.stats.Refused == d.stats.Reports+d.stats.ReportsLost
}

// Reopen takes Close back.
func (d *Distribution) Reopen() { d.closed = false }

// Arrived is the mr.Spec.Arrived of the region. A queue pair is in the middle of a packet, so run does the rest.
func (d *Distribution) Arrived(a mem.Arrival, offset uint64) {
	if d.forward == nil { // a peer has guessed the key
		return
	}
	d.stats.Arrived++
	x := d.core.qps.Lookup(a.QPN)
	full := len(d.origins)+len(d.unsent) >= mr.DistributionDepth
	if x == nil || d.closed || full || !d.forward.Arrived(a, offset) {
		d.stats.Refused++
		return
	}
	d.origins = append(d.origins, x.internalSends())
	d.core.distributor.add(d)
}
