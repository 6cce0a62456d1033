// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The guard decides about packets without the token of the peer whose address they have: anybody can
// have sent them. Ingress compares the token (rx_meta.Proven), and a packet with it costs one branch here.
//
//	the peer                                             a packet without the token
//	stamps, and the packet had room for the option       is dropped and counted (unproven.go)
//	stamps, but the packet had no room                   takes effect with the exact PSN only
//	stamps nothing: it has said so, or does not answer   the same
//	has sent no stamp yet, or is a plain peer (rxe)      the same
//
// A packet that must have the exact PSN is never buffered ahead of a gap (qp.ReceiveExact).
//
// A peer that stamps may end that at any time: its filter was deleted or is behind another one, it was
// detached, its agent was killed, its path has a smaller MTU. So a dropped packet has the agent ask the
// peer whether it stamps, and up to which length (question.go). Packets are dropped until it answers, or
// is silent for questionLimit questions while nothing with its token arrives.
//
// Packets of this engine to itself count as proven. A packet of an encrypted queue pair has a better
// proof. Each further interface (rail.go) has a table, tokens and guards of its own.

// guard is what is known of the stamps of a peer.
type guard struct {
	provenAt qp.Time // arrival of the last packet with the token, 0 = none has arrived
	room     int     // longest packet that the peer stamps, bytes of IP without the option
	bare     bool    // the peer has said that it stamps nothing
	silent   bool    // the peer answers no questions, and nothing of it is proven
	question question
}

// on reports whether a packet of so many bytes of IP needs the token.
func (g *guard) on(length int) bool {
	return g.provenAt != 0 && !g.bare && !g.silent && length <= g.room
}

// exactOnly reports whether the peer is known not to stamp although it understands stamps.
func (g *guard) exactOnly() bool { return g.bare || g.silent }

// admit decides about a packet without the token. It reports whether the queue pair gets the packet.
func (r *receiver) admit(x *QP, p *rocev2.Packet, m *Meta) bool {
	if x.crypt != nil { // it has been opened, so it is the peer's
		return true
	}
	m.exact = true
	d, k := r.sender(x, p), kindOf(p)
	if d == nil || !d.stamps || !d.guard.on(neededRoom(p, k)) {
		return true
	}
	r.e.dests.dropUnproven(d, k)
	return false
}

// neededRoom returns the length by which a packet had no room for the option, in bytes of IP. What is
// behind the ICRC does not count, and packets other than data are short: one that is not is padded.
func neededRoom(p *rocev2.Packet, k unprovenKind) int {
	if k != unprovenData {
		return 0
	}
	return len(p.IPHeader()) + p.UDPLen()
}

// admitMAD decides about a packet to queue pair 1.
func (q *madQueue) admit(p *rocev2.Packet) bool {
	d := q.e.dests.rails[0].dests[p.Src()]
	if d == nil || !d.stamps || !d.guard.on(neededRoom(p, unprovenMAD)) {
		return true
	}
	q.e.dests.dropUnproven(d, unprovenMAD)
	return false
}

// sender returns the destination that a packet to a queue pair came from; nil: none has its address.
func (r *receiver) sender(x *QP, p *rocev2.Packet) *dest {
	if x.dest == nil { // UD
		return r.e.dests.rails[0].dests[p.Src()]
	}
	if r := x.otherRail(p); r != nil {
		return r.dest
	}
	return x.dest
}

// applyGuard applies what the destination table has of the peer's stamps.
func (s *destinations) applyGuard(d *dest, r *DestSync) {
	g := &d.guard
	if g.room = r.Room; g.room == 0 { // not known: its MTU may be that of this host
		g.room = s.mtuOf(d) - rocev2.StampLen
	}
	g.bare = r.Bare
	if r.Proven && g.provenAt == 0 {
		g.provenAt = 1 // some time ago, before this destination
	}
	s.applyAnswer(d, r.Answers)
}

// mtuOf returns the MTU of the interface that leads to a destination, bytes of IP.
func (s *destinations) mtuOf(d *dest) int {
	return s.of(d).mtu
}

// answerPatience is how long the first packets to a destination wait for the token that they must
// carry: a peer that knows this host drops what comes without. The agent has asked for it when the
// table's entry was made. Plain peers never give one.
const answerPatience = qp.Time(20 * time.Millisecond)

// waits reports whether packets to the destination wait for its first token. An entry has it from the beginning.
func (d *dest) waits(now qp.Time) bool { return d.entry == nil && now < d.waitsUntil }

// nakWaits reports whether the queue pair has failed, and its last answer waits for that token. Nothing repeats this
// NAK: without it, the peer's work request would end with another status, after all its retries.
func (t *transmitter) nakWaits(x *QP) bool {
	return x.dest != nil && x.dest.waits(t.e.now) && x.q.State() == verbs.StateErr && x.q.AckDue()
}

// endWait ends that wait, which does not count as one for the pacer.
func (d *dest) endWait(e *Core) {
	if d.waitsUntil != 0 && d.paceBlocked != 0 {
		d.paceBlocked = max(d.paceBlocked, min(d.waitsUntil, e.now))
	}
	d.waitsUntil = 0
}
