// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2/nic/pacer"
	"github.com/softroce/softroce-xdp/rocev2/nic/route"
	"github.com/softroce/softroce-xdp/rocev2/nic/sched"
	"github.com/softroce/softroce-xdp/rocev2/nic/wheel"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// dest is one destination: its rate, its stamps, and which queue pairs have data for
// it. The queue pairs and address handles that lead there share it. It belongs to
// the engine's thread.
type dest struct {
	addr netip.Addr
	sock *sock // one socket a destination: its packets keep their order
	refs int

	drr    sched.Queue[*QP] // queue pairs that may have data
	queued bool             // in engine.ready or socketFull, or being served
	link   sched.Link[*dest]

	// What its queue pairs have in flight together, and the queue of those that are blocked on it.
	flight  qp.Flight
	windows windows

	// The pacer, and the wait for it.
	pacer       pacer.Bucket
	paceBlocked qp.Time // since when data waits for the pacer, 0 = none does
	timer       wheel.Timer[*dest]

	largeAt qp.Time // when a packet with Options.LargeDSCP last left

	// What the peer understands, and its latest stamp: T1 and when that arrived.
	stamps, sack   bool
	token          uint64 // that stamps to it carry
	peerT1, peerT2 uint64
	ce             bool // the latest packet had CE, and no echo of it was sent

	credit *creditPeer // pre-credit's, nil unless queue pairs use that

	probe        probe
	report       DestSync
	syncQueued   bool // in engine.syncQueue
	initialSyncs int8 // reports still to be made although nothing was sent
}

// A destination that nothing is known of is reported so often without having sent
// anything, until HELLO has announced what it understands.
const initialSyncReports = 25

// destination returns the entry of the address that a path leads to. The caller must
// drop it.
func (e *engine) destination(p *route.Path) *dest {
	to := p.Current()
	addr := to.Dst
	d := e.dests[addr]
	if d == nil {
		d = &dest{addr: addr, pacer: pacer.New(e.config.InitialRate), initialSyncs: initialSyncReports, flight: qp.NewFlight()}
		d.sock = e.senders[addressHash(addr)%uint32(len(e.senders))]
		d.timer.Owner = d
		d.report.Addr = addr
		e.dests[addr] = d
		if !to.Loopback {
			e.queueForSync(d)
		}
	}
	d.refs++
	return d
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
		delete(e.dests, d.addr)
		e.destTimers.Stop(&d.timer)
		d.setRate(e, 0)
		e.unblock(d)
	}
}

// queueForSync has the destination reported to the data plane.
func (e *engine) queueForSync(d *dest) {
	if !d.syncQueued {
		d.syncQueued = true
		e.syncQueue = append(e.syncQueue, d)
	}
}
