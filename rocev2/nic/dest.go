// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic/route"
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

	// Which of its queue pairs may have data, first the one whose turn it is.
	first, last *QP
	queued      bool // in the engine's ring of destinations
	next        *dest

	// What its queue pairs have outstanding together, with the line of those that wait for room.
	flight  qp.Flight
	windows windows

	// The pacer: a token bucket, kept as the time at which it is empty. That of
	// bpf/lib/pace.h in the engine's hands.
	rate  uint64 // bit/s of L2 frames without the option, 0 = unpaced
	empty qp.Time
	held  qp.Time // since when data waits for the pacer, 0 = none does
	timer wheel.Timer[*dest]
	late  qp.Time // that the rate is behind through no fault of the sender
	busy  bool    // since its last packet there has always been data

	largeAt qp.Time // when a packet with Options.LargeDSCP last left

	// What the peer understands, and its latest stamp: T1 and when that arrived.
	stamps, sack   bool
	token          uint64 // that stamps to it carry
	peerT1, peerT2 uint64
	ce             bool // it came with CE and no stamp has told the peer

	credit *creditPeer // nil unless queue pairs use pre-credit

	probe  probe
	report DestSync
	listed bool // in the engine's list of those to report
	fresh  int8 // reports still to be made although nothing was sent
}

// A destination that nothing is known of is reported so often without having sent
// anything, until HELLO has told what it understands.
const freshReports = 25

// destination returns the entry of the address that a path leads to. The caller must
// drop it.
func (e *engine) destination(p *route.Path) *dest {
	to := p.Current()
	addr := to.Dst
	d := e.dests[addr]
	if d == nil {
		d = &dest{addr: addr, rate: e.live.InitialRate, fresh: freshReports, flight: qp.NewFlight()}
		d.sock = e.senders[addressHash(addr)%uint32(len(e.senders))]
		d.timer.Owner = d
		d.report.Addr = addr
		e.dests[addr] = d
		if !to.Loopback {
			e.list(d)
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

// drop takes a reference back. What waits in lists goes when its turn comes: queue
// pairs of UD, which have messages for others and must not wait for a pacer that
// nobody tells a rate any more.
func (e *engine) drop(d *dest) {
	if d.refs--; d.refs == 0 {
		delete(e.dests, d.addr)
		e.destTimers.Stop(&d.timer)
		d.setRate(e, 0)
		e.resume(d)
	}
}

// list has the destination reported to the wire plane.
func (e *engine) list(d *dest) {
	if !d.listed {
		d.listed = true
		e.active = append(e.active, d)
	}
}

// mayLeave reports whether the pacer lets the next packet go.
func (d *dest) mayLeave(e *engine) bool {
	return d.rate == 0 || !e.live.Paced || d.empty <= e.now
}

// A thread that comes late, on a machine that is busy with others, by more than the
// burst cannot make up for it with a larger burst: the network would have to take it.
// Where data waited all the time, the rate is a little higher afterwards instead.
const (
	catchUp = 40 // by 1/40, below the 3 % that a rate may be off
	maxLate = qp.Time(100 * time.Millisecond)
)

// spend takes the cost of a frame of n bytes out of the bucket.
func (d *dest) spend(e *engine, n int) {
	busy := d.busy
	d.busy = true
	if d.rate == 0 {
		return
	}
	if saved := e.now - e.live.Burst; d.empty < saved {
		if busy {
			d.late = min(d.late+saved-d.empty, maxLate)
		}
		d.empty = saved
	}
	cost := qp.Time(uint64(n) * 8e9 / d.rate)
	back := min(cost/catchUp, d.late)
	d.late -= back
	d.empty += cost - back
}

// setRate takes a new rate over. Debt that was made at the old one is scaled, so that
// a rate of nearly nothing does not block for hours; without a rate there is none. What
// could not be sent at a higher rate is not owed at a lower one.
func (d *dest) setRate(e *engine, rate uint64) {
	if debt := d.empty - e.now; debt > 0 && d.rate != 0 {
		d.empty = e.now
		if rate != 0 {
			d.empty += qp.Time(float64(debt) * float64(d.rate) / float64(rate))
		}
	}
	if rate < d.rate {
		d.late = 0
	}
	d.rate = rate
}

// hold has the destination wait for the pacer.
func (e *engine) hold(d *dest) {
	if d.held == 0 {
		d.held = e.now
		d.report.Waited++
	}
	e.destTimers.Set(&d.timer, int64(d.empty))
}

// resume ends the wait.
func (e *engine) resume(d *dest) {
	if d.held != 0 {
		d.report.WaitedTime += e.now - d.held
		d.held = 0
	}
	if d.first != nil {
		e.enqueue(d)
	}
}

// echoMaxAge is how old a stamp may be to be echoed still (bpf/lib/dest.h).
const echoMaxAge = 1e9

// stamp fills in the option of a packet that leaves now.
func (d *dest) stamp(s *rocev2.Stamp, now uint64) {
	*s = rocev2.Stamp{Flags: rocev2.StampT1, Token: d.token, T1: now}
	if d.peerT2 != 0 && int64(now-d.peerT2) < echoMaxAge {
		s.Flags |= rocev2.StampEcho
		s.EchoT1, s.EchoT2 = d.peerT1, d.peerT2
	}
	if d.ce {
		s.Flags |= rocev2.StampCE
		d.ce = false
		d.report.CEEchoed = true
	}
}

// note takes what ingress has measured on a packet of the peer.
func (d *dest) note(m rxMeta) {
	if m.flags&rocev2.StampT1 != 0 {
		d.peerT1, d.peerT2 = m.t1, m.t2
	}
	if m.ce {
		d.ce = true
	}
}

// probe measures the round trip to peers that do not stamp, on one packet at a time.
type probe struct {
	qp   *QP
	psn  rocev2.PSN
	sent qp.Time // 0 = none under way
}

// probeTimeout is when a probe without an answer makes room for another.
const probeTimeout = qp.Time(1e9)

// leaves looks at a packet that leaves for the peer.
func (p *probe) leaves(x *QP, o *qp.Outbound, now qp.Time) {
	switch {
	case o.Again: // Karn: its answer could be the answer to either
		if p.qp == x {
			p.sent = 0
		}
	case o.AckReq && o.Opcode != rocev2.RCReadRequest && (p.sent == 0 || now-p.sent > probeTimeout):
		*p = probe{x, o.PSN, now}
	}
}

// answered looks at a packet of the peer, and returns the round trip if it is the
// one that was waited for, or one for packets behind it: a peer that has much to do
// answers many at once, and hardly ever names this one.
func (p *probe) answered(x *QP, op rocev2.Operation, psn rocev2.PSN, now qp.Time) (rtt, sent qp.Time) {
	if p.sent == 0 || p.qp != x || psn.Diff(p.psn) < 0 {
		return 0, 0
	}
	switch op {
	case rocev2.OperationAck, rocev2.OperationAtomicAck, rocev2.OperationReadResponse:
		rtt, sent, p.sent = now-p.sent, p.sent, 0
	}
	return rtt, sent
}
