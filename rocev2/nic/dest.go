// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/sched"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// A destination that nothing is known of is reported so often without having sent
// anything, until HELLO has announced what it understands.
const initialSyncReports = 25

// destination returns the entry of the address that a path of the device's own interface leads to. The
// caller must drop it.
func (e *engine) destination(p *route.Path) *dest { return e.destinationOn(0, p) }

// destinationOn is destination for a path of a rail.
func (e *engine) destinationOn(rail uint8, p *route.Path) *dest {
	d := e.destinationFor(rail, p, false)
	e.endAnswers(d)
	return d
}

// destinationFor is destinationOn. answers: a new one is for answers of the communication manager only.
func (e *engine) destinationFor(rail uint8, p *route.Path, answers bool) *dest {
	to := p.Current()
	addr, r := to.Dst, e.railNumber(rail)
	d := r.dests[addr]
	if d == nil {
		d = &dest{addr: addr, rail: rail, answers: answers, pacer: sched.NewBucket(r.config.InitialRate), initialSyncs: initialSyncReports, flight: qp.NewFlight()}
		d.sock = r.senders[addressHash(addr)%uint32(len(r.senders))]
		d.timer.Owner = d
		d.report.Addr = addr
		r.dests[addr] = d
		if !to.Loopback {
			d.waitsUntil = e.now + answerPatience
			e.queueForSync(d)
		}
	}
	if !to.Loopback {
		e.tokenFor(d, to.Src) // asked for before the first packet
	}
	d.refs++
	return d
}

// reorderShare is the share that the peer has of the memory for packets behind gaps.
func (d *dest) reorderShare(e *engine) *qp.ReorderPool {
	if d.reorder == nil {
		d.reorder = e.reorder.Share()
	}
	return d.reorder
}

func addressHash(a netip.Addr) uint32 {
	h := uint32(2166136261) // FNV-1a
	for _, b := range a.As16() {
		h = (h ^ uint32(b)) * 16777619
	}
	return h
}

// drop releases a reference. What is in queues stays there until it is served: queue
// pairs of UD, which have messages for others and must not wait for a pacer that
// no report updates any more.
func (e *engine) drop(d *dest) {
	if d.refs--; d.refs == 0 {
		delete(e.railOf(d).dests, d.addr)
		e.destTimers.Stop(&d.timer)
		d.setRate(e, 0)
		e.unblock(d)
	}
}

// queueForSync has the destination reported to the data plane.
func (e *engine) queueForSync(d *dest) {
	if !d.syncQueued {
		d.syncQueued = true
		r := e.railOf(d)
		r.syncQueue = append(r.syncQueue, d)
	}
}
