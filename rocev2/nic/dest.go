// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
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

	// What its queue pairs have outstanding together, with the line of those that wait for room.
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
		d = &dest{addr: addr, pacer: pacer.New(e.live.InitialRate), fresh: freshReports, flight: qp.NewFlight()}
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
		e.unblock(d)
	}
}

// list has the destination reported to the wire plane.
func (e *engine) list(d *dest) {
	if !d.listed {
		d.listed = true
		e.active = append(e.active, d)
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
