// SPDX-License-Identifier: Apache-2.0

package card

import (
	"errors"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// group is an element of block distribution that the card accepted.
type group struct {
	num     uint32
	list    mr.Group
	regions int // number of regions that use the group
}

// distribution forwards what arrives in one region (S2.7). Package mr decides what is posted;
// here are the queue pairs and the counters.
type distribution struct {
	*mr.Distribution
	group  *group
	queued bool    // the distribution is in dataPath.forwarding
	ended  []ended // work requests that have completed since the last step
}

type ended struct {
	id     uint64
	status verbs.Status
}

// setGroup makes or removes a group when group_valid changes. A group that regions use stays.
func (d *dataPath) setGroup(i uint32, was, now regs.DistributionControl) {
	e := regs.DistributionOf(d.in, int(i))
	switch g := d.groups[i]; {
	case was.GroupValid() == now.GroupValid():
		return
	case now.GroupValid():
		if list := d.readGroup(e, now); list.Check(0) == nil {
			d.groups[i] = &group{num: i, list: list}
		}
	case g != nil && g.regions > 0:
		e.SetControl(was)
		return
	default:
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

// newDistribution returns the distribution of a region that the driver registers.
func (d *dataPath) newDistribution(e regs.Mr, c regs.MrControl) (*distribution, error) {
	g := d.groups[c.Group()]
	if g == nil {
		return nil, errNoGroup
	}
	f, err := mr.NewDistribution(g.list, e.Va(), e.Length(), e.Key())
	if err != nil {
		return nil, err
	}
	return &distribution{Distribution: f, group: g}, nil
}

// counter is the address of a counter of a group.
func (g *group) counter(offset uint64) uint64 {
	return regs.DistributionBase + uint64(g.num)*regs.DistributionStride + offset
}

// arrived is called for each message in the region, in the middle of a packet of its queue pair:
// the work requests are posted later.
func (d *dataPath) arrived(f *distribution, a mem.Arrival, offset uint64) {
	d.in.add(f.group.counter(regs.DistributionArrivedOffset), 1)
	if !f.Arrived(a, offset) {
		d.in.add(f.group.counter(regs.DistributionRefusedOffset), 1)
		return
	}
	d.queueForwarding(f)
}

func (d *dataPath) queueForwarding(f *distribution) {
	if !f.queued {
		f.queued = true
		d.forwarding = append(d.forwarding, f)
	}
}

// forward posts what distributions have to send. A distribution with a destination whose send
// queue is full stays in the list.
func (d *dataPath) forward() {
	list := d.forwarding
	d.forwarding = d.spare[:0]
	for _, f := range list {
		f.queued = false
		blocked := false
		f.Post(func(to mr.Destination, wr *verbs.SendWR) error {
			err := d.postInternal(to.QPN, wr, func(id uint64, s verbs.Status) {
				f.ended = append(f.ended, ended{id, s}) // possibly before Post has returned
				d.queueForwarding(f)
			})
			blocked = blocked || errors.Is(err, verbs.ErrQueueFull)
			return err
		})
		d.takeEnded(f)
		d.report(f)
		if blocked {
			d.queueForwarding(f)
		}
	}
	d.spare = list[:0]
}

// takeEnded passes statuses of work requests on.
func (d *dataPath) takeEnded(f *distribution) {
	for _, e := range f.ended {
		f.Complete(e.id, e.status)
	}
	f.ended = f.ended[:0]
}

// report sends the reports of messages that all destinations have, or have failed to get.
func (d *dataPath) report(f *distribution) {
	for {
		r, ok := f.NextReport()
		if !ok {
			return
		}
		for i := range int(r.Destinations) {
			at := uint64(regs.DistributionDeliveredOffset)
			if r.Status[i] != verbs.StatusSuccess {
				at = regs.DistributionFailedOffset
			}
			d.in.add(f.group.counter(at+uint64(i)*regs.DistributionDestQpStride), 1)
		}
		wr := verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Inline | verbs.Signaled, Data: r.AppendTo(nil)}
		sent := func(_ uint64, s verbs.Status) {
			at := uint64(regs.DistributionReportsOffset)
			if s != verbs.StatusSuccess {
				at = regs.DistributionReportsLostOffset
			}
			d.in.add(f.group.counter(at), 1)
		}
		if d.postInternal(r.QPN, &wr, sent) != nil {
			sent(0, verbs.StatusLocalQPOperation)
		}
	}
}

var errNoPair = errors.New("the queue pair was reset")

// postInternal posts a work request of the card itself. ended is called with its ID when it has
// completed.
func (d *dataPath) postInternal(qpn uint32, wr *verbs.SendWR, ended func(id uint64, s verbs.Status)) error {
	x := d.qps[qpn]
	if x == nil {
		return errNoPair
	}
	if err := x.post(wr, ended); err != nil {
		return err
	}
	d.touch(x)
	return nil
}
