// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The stages of a received packet. The functions follow in this order.
//
//  1. Frame:   one frame of an interface; ReceiveLoopback: what the core has sent to itself
//  2. parse:   headers and ICRC
//  3. lookup:  the queue pair, and whether the packet comes from its peer; admit: whether it may be forged
//  4. note:    what ingress has measured: stamp, CE; round trips
//  5. deliver: the transport. Completions come out of it; ACKs wait until all of
//     the batch was delivered (tx.go), so that one ACK serves many packets

// Frame takes an Ethernet frame of a network interface, with what was measured on it, and changes it in place. The
// frame is valid during the call only. Answers and data leave with the next Run.
func (e *Core) Frame(b []byte, m Meta) { e.rx.frame(b, m, false) }

// Packet is Frame for a packet whose ICRC is right. The core changes it in place.
func (e *Core) Packet(p *rocev2.Packet, m Meta) { e.rx.packet(p, &m, false) }

// FrameTooLong counts a frame that was longer than its interface's MTU.
func (e *Core) FrameTooLong() { e.count.rxTooLong++ }

// frame is stages 2 to 5 for one Ethernet frame. loopback: it comes from this engine.
func (r *receiver) frame(b []byte, m Meta, loopback bool) {
	if p, ok := r.parse(b, loopback); ok {
		r.packet(&p, &m, loopback)
	}
}

// packet is stages 3 to 5.
func (r *receiver) packet(p *rocev2.Packet, m *Meta, loopback bool) {
	if r.e.hooks != nil && p.BTH().DestQP() == rocev2.ControlQPN {
		r.e.hooks.onControl(*p, *m)
		return
	}
	x := r.lookup(p, m)
	if x == nil || x.crypt != nil && !r.open(x, p) || !m.Proven && !r.admit(x, p, m) {
		return
	}
	if !loopback {
		r.note(x, p, m)
	}
	if !x.hooked || loopback {
		r.deliver(x, p, m)
		return
	}
	count := x.q.Config().Count
	f := &x.dest.flight
	before, lost, taken := f.Bytes(), f.LostBytes(), count.Taken()
	r.deliver(x, p, m)
	r.e.hooks.onReceived(x, *p, *m, inFlight{before, f.LostBytes() - lost}, count.Taken() != taken)
}

// parse reads the headers and checks the ICRC, which packets that the engine has sent itself do not have.
func (r *receiver) parse(b []byte, loopback bool) (p rocev2.Packet, ok bool) {
	p, err := rocev2.ParseFrame(b)
	if err != nil {
		r.e.count.rxMalformed++
		return p, false
	}
	if !loopback && len(r.allow) != 0 && !r.allow.Has(p.Src()) {
		r.e.count.rxNotAllowed++
		return p, false
	}
	if x := r.e.qps.Lookup(p.BTH().DestQP()); x != nil {
		prefetch(x) // its cache lines are there when the ICRC was checked
	}
	if !loopback && p.VerifyICRCInPlace() != nil {
		r.e.count.rxBadICRC++
		return p, false
	}
	return p, true
}

// lookup finds the queue pair that the packet is for. A connected one
// takes packets of its peer only (IBTA 9.6.1.1, A17.4.3; rxe checks the same). A UD queue pair takes
// those to the interface's addresses: a frame may have its MAC address and any other IP address (S8).
func (r *receiver) lookup(p *rocev2.Packet, m *Meta) *QP {
	bth := p.BTH()
	x := r.e.qps.Lookup(bth.DestQP())
	switch {
	case x == nil:
		if bth.DestQP() != mad.QPN || !r.e.mads.receive(p, m) {
			r.e.count.rxUnknownQPN++
		}
	case bth.Version() != 0:
		r.e.count.rxMalformed++
	case !MatchPKey(bth.PKey(), x.pkey):
		r.e.count.wrongPKey(bth, x)
	case x.typ != verbs.UD && x.dest != nil && (p.Src() != x.dest.addr || p.Dst() != x.src) && x.otherRail(p) == nil:
		r.e.count.rxWrongPeer++
	case x.typ == verbs.UD && !r.e.host.Owns(p.Dst()):
		r.e.count.rxOtherAddress++
	default:
		return x
	}
	return nil
}

// MatchPKey is IBTA 10.9.3: the same partition, and at least one full member.
func MatchPKey(a, b uint16) bool {
	const full = 0x8000
	return (a^b)&^full == 0 && (a|b)&full != 0 && a&^full != 0
}

func (r *receiver) note(x *QP, p *rocev2.Packet, m *Meta) {
	d := r.sender(x, p)
	if d == nil {
		return
	}
	if m.Proven {
		d.guard.provenAt = r.e.now
	}
	d.note(m)
	if d.probe.sent == 0 || d.stamps && !m.Proven { // of a peer that stamps, a forged ACK
		return
	}
	rtt, sent := d.probe.answered(x, p.Opcode().Info().Operation, p.BTH().PSN(), r.e.now)
	if rtt > 0 && (d.report.RTT == 0 || rtt < d.report.RTT) {
		d.report.RTT, d.report.RTTSent = rtt, uint64(int64(sent)+r.e.dests.of(d).config.ClockOffset)
		r.e.dests.queueForSync(d)
	}
}

func (r *receiver) deliver(x *QP, p *rocev2.Packet, m *Meta) {
	r.e.count.rxPackets++
	x.receive(r.e, p, m)
	r.e.tx.markDirty(x)
	if x.dest != nil && x.dest.flight.SilenceEnded() {
		r.e.outages.answered(x.dest)
	}
}

// LoopbackRounds is the usual Config.LoopbackRounds. Packets to the engine itself are received in the iteration that has
// sent them, up to so many times in turn with what they cause, while they are few: request and answer of a small message
// take one iteration then. Where they are many, other packets come first.
const LoopbackRounds = 2

// loopbackFew is how many packets are few.
const loopbackFew = 4

// shortLoopback receives packets of this iteration, if they are few.
func (r *receiver) shortLoopback() (n int) {
	for range r.loopback.rounds {
		if r.loopback.count == 0 || r.loopback.count > loopbackFew {
			break
		}
		n += r.e.ReceiveLoopback()
		r.e.tx.flushDirty()
	}
	return n
}

// ReceiveLoopback handles the packets to the core itself that are queued now, not those that it causes. It returns
// how many they were.
func (e *Core) ReceiveLoopback() int {
	q := &e.rx.loopback
	n := q.count
	if n > 0 {
		e.host.TakePosts()
	}
	for range n {
		i := q.head
		e.rx.frame(q.slots[i][:q.lens[i]], Meta{Proven: true}, true)
		q.head = (q.head + 1) % loopbackLimit
		q.count--
	}
	return n
}
