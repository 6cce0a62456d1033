// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The stages of a received packet. The functions follow in this order.
//
//  1. receive: a batch of frames from each socket, then what we sent to ourselves
//  2. parse:   headers and ICRC
//  3. lookup:  the queue pair, and whether the packet comes from its peer; admit: whether it may be forged
//  4. note:    what ingress has measured: stamp, CE; round trips
//  5. deliver: qp.Receive. Completions come out of it; ACKs wait until all of
//     the batch was delivered (tx.go), so that one ACK serves many packets

// rxBatch is how many frames of a socket are taken at once.
const rxBatch = 128

// receive handles what has arrived and returns how many packets that were.
func (e *engine) receive() (n int) {
	for r := range e.rails {
		n += e.receiveFrom(r)
	}
	return n + e.receiveLoopback()
}

// receiveFrom handles what has arrived on an interface.
func (e *engine) receiveFrom(r *rail) (n int) {
	for _, s := range r.socks {
		got := s.xsk.Receive(s.batch)
		e.rxBacklog = e.rxBacklog || got == rxBatch
		if got > 0 {
			// A receive that was posted before these were sent must be found by them.
			e.takePosts()
		}
		for i := range got {
			p := s.batch.Packet(i)
			m, _ := parseMeta(p.Meta())
			frame := p.Linear(e.scratch)
			if frame == nil {
				e.count.rxTooLong++
				continue
			}
			e.frame(frame, m, false)
		}
		s.batch.Release()
		n += got
	}
	return n
}

// frame is stages 2 to 5 for one Ethernet frame. loopback: it comes from this engine.
func (e *engine) frame(b []byte, m rxMeta, loopback bool) {
	p, ok := e.parse(b, loopback)
	if !ok {
		return
	}
	if e.hooks != nil && p.BTH().DestQP() == rocev2.ControlQPN {
		e.hooks.onControl(p)
		return
	}
	x := e.lookup(&p, &m)
	if x == nil || x.crypt != nil && !e.open(x, &p) || !m.proven && !e.admit(x, &p, &m) {
		return
	}
	if !loopback {
		e.note(x, &p, m)
	}
	if !x.hooked || loopback {
		e.deliver(x, &p, &m)
		return
	}
	count := x.q.Config().Count
	inFlight, taken := x.dest.flight.Bytes(), count.Taken()
	e.deliver(x, &p, &m)
	e.hooks.onReceived(x, p, m, inFlight, count.Taken() != taken)
}

// parse reads the headers and checks the ICRC, which packets that the engine has sent itself do not have.
func (e *engine) parse(b []byte, loopback bool) (p rocev2.Packet, ok bool) {
	p, err := rocev2.ParseFrame(b)
	if err != nil {
		e.count.rxMalformed++
		return p, false
	}
	if !loopback && len(e.allow) != 0 && !e.allow.has(p.Src()) {
		e.count.rxNotAllowed++
		return p, false
	}
	if x := e.qps.Lookup(p.BTH().DestQP()); x != nil {
		prefetch(x) // its cache lines are there when the ICRC was checked
	}
	if !loopback && p.VerifyICRCInPlace() != nil {
		e.count.rxBadICRC++
		return p, false
	}
	return p, true
}

// lookup finds the queue pair that the packet is for. A connected one
// takes packets of its peer only (IBTA 9.6.1.1, A17.4.3; rxe checks the same). A UD queue pair takes
// those to the interface's addresses: a frame may have its MAC address and any other IP address (S8).
func (e *engine) lookup(p *rocev2.Packet, m *rxMeta) *QP {
	bth := p.BTH()
	x := e.qps.Lookup(bth.DestQP())
	switch {
	case x == nil:
		if bth.DestQP() != mad.QPN || !e.receiveMAD(p, m) {
			e.count.rxUnknownQPN++
		}
	case bth.Version() != 0:
		e.count.rxMalformed++
	case !matchPKey(bth.PKey(), x.pkey):
		e.count.wrongPKey(bth, x)
	case x.typ != verbs.UD && x.dest != nil && (p.Src() != x.dest.addr || p.Dst() != x.src) && x.otherRail(p) == nil:
		e.count.rxWrongPeer++
	case x.typ == verbs.UD && !e.dev.owns(p.Dst()):
		e.count.rxOtherAddress++
	default:
		return x
	}
	return nil
}

// matchPKey is IBTA 10.9.3: the same partition, and at least one full member.
func matchPKey(a, b uint16) bool {
	const full = 0x8000
	return (a^b)&^full == 0 && (a|b)&full != 0 && a&^full != 0
}

func (e *engine) note(x *QP, p *rocev2.Packet, m rxMeta) {
	d := e.sender(x, p)
	if d == nil {
		return
	}
	if m.proven {
		d.guard.provenAt = e.now
	}
	d.note(m)
	if d.probe.sent == 0 || d.stamps && !m.proven { // of a peer that stamps, a forged ACK
		return
	}
	rtt, sent := d.probe.answered(x, p.Opcode().Info().Operation, p.BTH().PSN(), e.now)
	if rtt > 0 && (d.report.RTT == 0 || rtt < d.report.RTT) {
		d.report.RTT, d.report.RTTSent = rtt, uint64(int64(sent)+e.railOf(d).config.ClockOffset)
		e.queueForSync(d)
	}
}

func (e *engine) deliver(x *QP, p *rocev2.Packet, m *rxMeta) {
	e.count.rxPackets++
	x.receive(e, p, m)
	e.markDirty(x)
	if x.dest != nil && x.dest.flight.SilenceEnded() {
		e.outages.answered(x.dest)
	}
}

// Packets to the engine itself are received in the iteration that has sent them, up to loopbackRounds times
// in turn with what they cause, while they are few: request and answer of a small message take one iteration
// then. Where they are many, other sockets come first.
const (
	loopbackRounds = 2
	loopbackFew    = 4
)

// shortLoopback receives packets of this iteration, if they are few.
func (e *engine) shortLoopback() (n int) {
	for range e.loopback.rounds {
		if e.loopback.count == 0 || e.loopback.count > loopbackFew {
			break
		}
		n += e.receiveLoopback()
		e.flushDirty()
	}
	return n
}

// receiveLoopback handles the packets that are queued now, not those that it causes.
func (e *engine) receiveLoopback() int {
	q := &e.loopback
	n := q.count
	if n > 0 {
		e.takePosts()
	}
	for range n {
		i := q.head
		e.frame(q.slots[i][:q.lens[i]], rxMeta{proven: true}, true)
		q.head = (q.head + 1) % loopbackLimit
		q.count--
	}
	return n
}
