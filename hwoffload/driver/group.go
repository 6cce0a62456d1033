// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Destination is one destination of a Group.
type Destination struct {
	QP   *QP    // RC, connected to the destination; its port and address are the destination's
	VA   uint64 // address of the region there
	RKey uint32 // R_Key of the region there
}

// Group is a distribution group (S2.7): a WRITE that a peer makes to a region of the group (Spec)
// leaves to all destinations from card memory, to the same offset of their regions. Its origin gets
// a report (mr.ParseReport) as a SEND on the queue pair of the WRITE, for which it has posted a
// receive. Until then it must not write to the same bytes again.
type Group struct {
	d    *Device
	num  uint64
	dest int
}

// GroupStats are the counters of a group, in messages.
type GroupStats struct {
	Arrived              uint64 // messages that arrived in regions of the group
	Refused              uint64 // arrived messages that were not forwarded: 256 had no report yet
	Reports, ReportsLost uint64
	Delivered, Failed    [mr.MaxDestinations]uint64 // messages by destination
}

// NewGroup makes a group of 1 to 4 destinations.
func (d *Device) NewGroup(list ...Destination) (*Group, error) {
	if len(list) < 1 || len(list) > mr.MaxDestinations {
		return nil, fmt.Errorf("card: a distribution group of %d destinations: give 1 to %d", len(list), mr.MaxDestinations)
	}
	err := d.require("distribution groups", regs.IdentCapabilities.Distribution)
	if err != nil {
		return nil, err
	}
	g := &Group{d: d, dest: len(list)}
	if g.num, err = d.take(&d.free.groups, 1, 1); err != nil {
		return nil, err
	}
	e := g.element()
	for i, to := range list {
		e.SetDestQp(i, regs.DistributionDestQp(0).WithGroupQpn(to.QP.QPN()))
		e.SetDestKey(i, to.RKey)
		e.SetDestVa(i, to.VA)
	}
	e.SetControl(regs.DistributionControl(0).WithGroupValid(true).WithDestinations(uint32(len(list))))
	usable := e.State().GroupUsable()
	if err := d.card.Err(); err != nil {
		return nil, err
	}
	if !usable {
		e.SetControl(0)
		d.give(&d.free.groups, g.num, 1)
		return nil, fmt.Errorf("card: distribution group: %w: each destination needs a queue pair of RC of its own, which is not in RESET", errRefused)
	}
	return g, nil
}

func (g *Group) element() regs.Distribution { return regs.DistributionOf(g.d.card, int(g.num)) }

// Stats reads the counters.
func (g *Group) Stats() (s GroupStats, err error) {
	e := g.element()
	s.Arrived, s.Refused, s.Reports, s.ReportsLost = e.Arrived(), e.Refused(), e.Reports(), e.ReportsLost()
	for i := range g.dest {
		s.Delivered[i], s.Failed[i] = e.Delivered(i), e.Failed(i)
	}
	return s, g.d.card.Err()
}

// Free ends the group. With regions that use it, it fails with verbs.ErrBusy.
func (g *Group) Free() error {
	e := g.element()
	e.SetControl(e.Control().WithGroupValid(false))
	still := e.Control().GroupValid()
	if err := g.d.card.Err(); err != nil {
		return err
	}
	if still {
		return fmt.Errorf("card: the distribution group is %w: deregister its regions first", verbs.ErrBusy)
	}
	g.d.give(&g.d.free.groups, g.num, 1)
	return nil
}
