// SPDX-License-Identifier: Apache-2.0

package card

import (
	"errors"
	"slices"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// group is an element of block distribution that the card accepted (S2.7). The engine forwards what arrives in its regions.
type group struct {
	num     uint32
	list    mr.Group
	regions int // number of regions that use the group

	before mr.DistributionStats // counters when the group was made, and of regions that have ended since
	all    []spread             // the other regions
}

// spread is the distribution of a region.
type spread struct {
	*engine.Distribution
	region *region
}

// setGroup makes or removes a group when group_valid changes. A group that regions use stays.
func (d *dataPath) setGroup(i uint32, was, now regs.DistributionControl) {
	e := regs.DistributionOf(d.in, int(i))
	switch g := d.groups[i]; {
	case was.GroupValid() == now.GroupValid():
		return
	case now.GroupValid():
		if list := d.readGroup(e, now); list.Check(0) == nil {
			g := &group{num: i, list: list}
			g.counters(&g.before, func(at uint64, v *uint64) { *v = d.in.R64(at) })
			d.groups[i] = g
		}
	case g != nil && g.regions > 0:
		e.SetControl(was)
		return
	default:
		d.showGroup(g)
		delete(d.groups, i)
	}
	at := regs.DistributionBase + uint64(i)*regs.DistributionStride + regs.DistributionStateOffset
	d.in.W32(at, uint32(regs.DistributionState(0).WithGroupUsable(d.groups[i] != nil)))
}

// readGroup reads the destinations, or returns none if one of them has no queue pair of RC.
func (d *dataPath) readGroup(e regs.Distribution, c regs.DistributionControl) (list mr.Group) {
	if c.Destinations() > mr.MaxDestinations {
		return nil
	}
	for i := range int(c.Destinations()) {
		qpn := e.DestQp(i).GroupQpn()
		if x := d.qps[qpn]; x == nil || x.q.Type() != verbs.RC {
			return nil
		}
		list = append(list, mr.Destination{QPN: qpn, VA: e.DestVa(i), RKey: e.DestKey(i)})
	}
	return list
}

var errNoGroup = errors.New("the region's distribution group does not exist")

// distribute connects a distribution with its region, which is registered.
func (d *dataPath) distribute(f *engine.Distribution, r *region) error {
	if err := d.net.core.Distribute(f, r.region, r.pd, r.group.list); err != nil {
		return err
	}
	r.group.regions++
	r.group.forgetEnded()
	r.group.all = append(r.group.all, spread{f, r})
	return nil
}

// counters calls yield with the counters of a group, and their addresses.
func (g *group) counters(s *mr.DistributionStats, yield func(at uint64, v *uint64)) {
	at := regs.DistributionBase + uint64(g.num)*regs.DistributionStride
	yield(at+regs.DistributionArrivedOffset, &s.Arrived)
	yield(at+regs.DistributionRefusedOffset, &s.Refused)
	yield(at+regs.DistributionReportsOffset, &s.Reports)
	yield(at+regs.DistributionReportsLostOffset, &s.ReportsLost)
	for i := range regs.DistributionDestQpCount {
		yield(at+regs.DistributionDeliveredOffset+uint64(i)*regs.DistributionDestQpStride, &s.Delivered[i])
		yield(at+regs.DistributionFailedOffset+uint64(i)*regs.DistributionDestQpStride, &s.Failed[i])
	}
}

// showGroup brings the counters of a group up to date.
func (d *dataPath) showGroup(g *group) {
	if g == nil {
		return
	}
	g.forgetEnded()
	sum := g.before
	for _, f := range g.all {
		addStats(&sum, f.Distribution)
	}
	g.counters(&sum, func(at uint64, v *uint64) { d.in.W64(at, *v) })
}

// forgetEnded keeps the counters only of regions that are gone and whose messages all have their reports.
func (g *group) forgetEnded() {
	g.all = slices.DeleteFunc(g.all, func(s spread) bool {
		ended := s.region.gone && s.Settled()
		if ended {
			addStats(&g.before, s.Distribution)
		}
		return ended
	})
}

// addStats adds the counters of a distribution.
func addStats(sum *mr.DistributionStats, f *engine.Distribution) {
	s := f.Stats()
	sum.Arrived += s.Arrived
	sum.Refused += s.Refused
	sum.Reports += s.Reports
	sum.ReportsLost += s.ReportsLost
	for i := range s.Delivered {
		sum.Delivered[i] += s.Delivered[i]
		sum.Failed[i] += s.Failed[i]
	}
}
