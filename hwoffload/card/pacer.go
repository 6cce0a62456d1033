// SPDX-License-Identifier: Apache-2.0

package card

import (
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/internal/tokenbucket"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// The pacer (S1.8, S1.9). Data to a node leaves at rate_bps of its entry of the destination table,
// by the token bucket of the data plane: it may leave if next_tx_ns has come, and moves it by what
// its frame takes. A card has one user of a destination, so the rates of the stack and of the
// engine have no effect. ACKs are neither held back nor counted.
//
// A queue pair whose destination may not send yet is not asked for data. It waits in the queue of
// its destination, first in, first out, so a destination delays no other one. The first in the
// queue gets a turn when next_tx_ns has come: it is the one that may send the next packet. Then it
// waits behind the others. ACKs of a queue pair that waits leave at once.

// burstNs is what a destination that was idle may send at once, as time at its rate. It covers a
// timer of a running model that is late.
const burstNs = 1_000_000

// pacing is the pacer's part of the data path.
type pacing struct {
	dests   map[uint32]*pacedDest // destinations by node number; made when a queue pair waits first
	timed   []*pacedDest          // destinations whose next packet leaves later
	due     qp.Time               // the first of their times, or 0
	changed bool                  // registers of the destination table have changed: the times are to be found again
}

// pacedDest is the queue of a destination.
type pacedDest struct {
	node    uint32
	waiting []*egress
	turn    *egress // egress of a queue pair that is in dataPath.ready and may send the next packet, or nil
	sendAt  qp.Time // send time of the next packet, if timed
	timed   bool    // the destination is in pacing.timed
}

// turn is an egress's part of the pacer.
type turn struct {
	dest  *pacedDest // destination that the egress may send the next packet to, or nil
	waits bool       // the egress is in the queue of a destination
	since qp.Time    // beginning of the wait; 0: it has not waited
}

// mayLeave reports whether a queue pair may be asked for data of an egress, and has the egress wait otherwise.
func (d *dataPath) mayLeave(g *egress, now qp.Time) bool {
	node := g.next().node
	if node == 0 || node > regs.DestCount {
		return !g.paced.waits
	}
	p, wait := d.pacing.dests[node], d.wait(node, now)
	switch {
	case g.paced.waits:
		return false
	case p == nil && wait <= 0:
		return true
	case p == nil:
		p = &pacedDest{node: node}
		d.pacing.dests[node] = p
	case g.paced.dest == p && wait <= 0:
		return true
	case g.paced.dest == p: // the rate is lower than when its turn began
		p.waiting = append([]*egress{g}, p.waiting...)
		g.paced.waits = true
		return false
	case p.turn == nil && len(p.waiting) == 0 && wait <= 0:
		return true
	}
	p.waiting = append(p.waiting, g)
	g.paced.waits, g.paced.since = true, now
	d.schedule(p, now)
	return false
}

// wait returns how long the next packet to a node has to wait, in ns; 0 or less: it may leave. No
// packet waits for longer than the longest frame, and what has left ahead of the rate on pre-credit,
// take at the present rate: next_tx_ns that is later is of a lower rate, and becomes earlier.
func (d *dataPath) wait(node uint32, now qp.Time) int64 {
	e := regs.DestOf(d.in, int(node)-1)
	rate := e.RateBps()
	if rate == 0 {
		return 0
	}
	at := d.time(now)
	wait := int64(e.NextTxNs() - at)
	if most := int64((FrameLen + d.ahead(node)) * 8_000_000_000 / rate); wait > most {
		wait = most
		e.SetNextTxNs(at + uint64(wait))
	}
	return wait
}

// charge takes a frame of n bytes out of the bucket of a node. Its queue pair was allowed to send,
// or the frame is on pre-credit.
func (d *dataPath) charge(g *egress, node uint32, n int, credited bool, now qp.Time) {
	if node == 0 || node > regs.DestCount {
		return
	}
	e := regs.DestOf(d.in, int(node)-1)
	b := tokenbucket.Bucket{RateBps: e.RateBps(), BurstNs: burstNs, NextTxNs: e.NextTxNs()}
	if b.RateBps != 0 {
		if d.credits != nil {
			d.credits.charged(node, n, credited, int64(b.NextTxNs-d.time(now)) <= 0)
		}
		b.Departure(d.time(now), uint32(n))
		e.SetNextTxNs(b.NextTxNs)
	}
	if !credited && g.paced.since != 0 && now > g.paced.since {
		e.SetPacedNs(e.PacedNs() + uint64(now-g.paced.since))
		e.SetWinPaced(e.WinPaced() + 1)
	}
}

// schedule gives the first egress of a destination its turn, or finds out when.
func (d *dataPath) schedule(p *pacedDest, now qp.Time) {
	if p.turn != nil || p.timed {
		return
	}
	for len(p.waiting) > 0 && d.qps[p.waiting[0].qp.num] != p.waiting[0].qp {
		p.waiting = p.waiting[1:] // it was reset
	}
	if len(p.waiting) == 0 {
		return
	}
	if wait := d.wait(p.node, now); wait > 0 {
		p.sendAt, p.timed = now+qp.Time(wait), true
		d.pacing.timed = append(d.pacing.timed, p)
		d.pacing.dueAt(p.sendAt)
		return
	}
	g := p.waiting[0]
	p.waiting = p.waiting[1:]
	g.paced.waits, g.paced.dest, p.turn = false, p, g
	d.enqueue(g.qp)
}

// rateOf is the rate of a node in bit/s, 0 = not limited.
func (d *dataPath) rateOf(node uint32) uint64 { return regs.DestOf(d.in, int(node)-1).RateBps() }

func (p *pacing) dueAt(at qp.Time) {
	if p.due == 0 || at < p.due {
		p.due = at
	}
}

// endTurn ends the turn of a queue pair, which has sent, or has nothing to send, or may not send
// yet.
func (d *dataPath) endTurn(g *egress, now qp.Time) {
	if !g.paced.waits {
		g.paced.since = 0
	}
	if p := g.paced.dest; p != nil {
		g.paced.dest, p.turn = nil, nil
		d.schedule(p, now)
	}
}

// release gives queue pairs their turn whose time has come.
func (d *dataPath) release(now qp.Time) {
	p := &d.pacing
	changed := p.changed
	if p.changed = false; !changed && (p.due == 0 || now < p.due) {
		return
	}
	timed := p.timed
	p.timed, p.due = nil, 0
	for _, dest := range timed {
		if !changed && dest.sendAt > now {
			p.timed = append(p.timed, dest)
			p.dueAt(dest.sendAt)
			continue
		}
		dest.timed = false
		d.schedule(dest, now)
	}
}

// rateChanged has the next call of next look at the rates again.
func (d *dataPath) rateChanged() {
	if d.credits != nil { // capabilities are in the table too
		d.credits.look = true
		signal(d.m.wake)
	}
	if len(d.pacing.timed) > 0 {
		d.pacing.changed = true
		signal(d.m.wake)
	}
}
