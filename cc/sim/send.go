// SPDX-License-Identifier: Apache-2.0

package sim

import "math/bits"

// flowState is the transport of a flow, both ends. Its first cache line is the
// sender's, the second the receiver's, the third what the sender needs to make a
// packet.
type flowState struct {
	net      *Net
	pacer    *Pacer // nil when done
	sel      *selective
	deadline tick // deadline of the retransmission timer, 0 = it does not run
	id       int32
	total    uint32 // packets
	next     uint32 // next packet to be sent, of those never sent or, go-back-N, after a return
	una      uint32 // first that is not acknowledged
	high     uint32 // first never sent
	xmit     uint32 // transmissions so far
	rto      int32  // slot
	backoff  uint8
	prio     uint8
	sending  bool // the flow is in pacer.sending

	receiverState

	rtoAt tick // time that rto is set to, 0 = nothing
	fwd   portPath
}

// flowRest is what is looked at rarely.
type flowRest struct {
	fromSource     bool
	rcvSlot        int32 // evRcvTimer
	idealAt, endAt tick
	_              [7]uint64 // whole cache lines
}

// selective is what a sender with selective repeat knows beyond una and next.
type selective struct {
	// first is the number of the first transmission that may be in flight. As
	// long as nothing is sent twice, a packet's number is that of its transmission.
	first  uint32
	resent bool
	lost   bitring
	acked  bitring
	// sent has, once something was sent twice, the packets in flight in the order
	// of their transmission. What was acknowledged since stays until its turn.
	sent []uint32
	head int
	_    [3]uint64 // whole cache lines
}

func (f *Flow) payload(psn uint32) int {
	if psn == f.total-1 {
		return int(f.Size - int64(psn)*int64(f.net.cfg.PayloadBytes))
	}
	return f.net.cfg.PayloadBytes
}

// bytes is the payload of packets from a to before b.
func (f *Flow) bytes(a, b uint32) int64 {
	if b <= a {
		return 0
	}
	n := int64(b-a) * int64(f.net.cfg.PayloadBytes)
	if b == f.total {
		n -= int64(f.total)*int64(f.net.cfg.PayloadBytes) - f.Size
	}
	return n
}

func (f *Flow) wantsToSend() bool {
	return f.next < f.total || f.sel != nil && f.sel.lost.count > 0
}

// nextPayload is the size of the packet that take would give.
func (f *Flow) nextPayload() int {
	if f.sel != nil && f.sel.lost.count > 0 {
		return f.payload(f.sel.lost.first())
	}
	return f.payload(f.next)
}

// take gives the packet to send now, and whether it was sent before.
func (f *Flow) take() (psn uint32, again bool) {
	s := f.sel
	if s != nil && s.lost.count > 0 {
		psn, again = s.lost.first(), true
		s.lost.remove(psn)
	} else {
		psn, again = f.next, f.next < f.high
		f.next++
		f.high = max(f.high, f.next)
	}
	if s != nil {
		f.push(psn, again)
	}
	return psn, again
}

// push notes the transmission of a packet, number f.xmit.
func (f *Flow) push(psn uint32, again bool) {
	s := f.sel
	if !s.resent {
		if !again {
			return
		}
		s.resent = true
		for k := s.first; k != f.xmit; k++ {
			s.sent = append(s.sent, k)
		}
	}
	if s.head > 64 && s.head*2 > len(s.sent) {
		s.sent = s.sent[:copy(s.sent, s.sent[s.head:])]
		s.head = 0
	}
	s.sent = append(s.sent, psn)
}

// pull takes the packet of the transmission number s.first, which is there.
func (s *selective) pull() (psn uint32) {
	psn = s.first
	s.first++
	if s.resent {
		psn = s.sent[s.head]
		s.head++
	}
	return psn
}

// armRTO starts the retransmission timer if it does not run.
func (f *Flow) armRTO() {
	if f.deadline == 0 {
		f.restartRTO()
	}
}

// restartRTO moves the deadline. The slot stays where it is: when it comes too
// early it is set again.
func (f *Flow) restartRTO() {
	w := f.net.wheel
	f.deadline = w.now + tick(f.net.cfg.RTO)*nanosecond<<f.backoff
	if f.rtoAt == 0 || f.rtoAt > f.deadline {
		f.setRTO()
	}
}

func (f *Flow) setRTO() {
	f.rtoAt = f.deadline
	f.net.wheel.set(f.rto, f.rtoAt)
}

func (f *Flow) rtoDue() {
	f.rtoAt = 0
	n := f.net
	if f.pacer == nil || f.deadline == 0 {
		return
	}
	if n.wheel.now < f.deadline {
		f.setRTO()
		return
	}
	p := f.pacer
	f.Timeouts++
	f.backoff = min(f.backoff+1, 3)
	f.deadline = 0
	if f.sel != nil {
		f.loseAll()
	} else {
		f.goBack(f.una)
	}
	p.wake(f)
	p.ctl.Timeout(n.wheel.now.ns(), p, f)
	p.Update()
}

// goBack makes psn the next packet to send. It returns the bytes that go again.
func (f *Flow) goBack(psn uint32) int64 {
	if psn >= f.next {
		return 0
	}
	b := f.bytes(psn, f.next)
	f.pacer.InflightBytes -= b
	f.next = psn
	return b
}

// loseAll declares everything in flight lost.
func (f *Flow) loseAll() {
	for s := f.sel; s.first != f.xmit; {
		f.lose(s.pull())
	}
}

func (f *Flow) lose(psn uint32) int64 {
	s := f.sel
	if psn < f.una || s.acked.has(psn) || !s.lost.add(psn) {
		return 0
	}
	b := int64(f.payload(psn))
	f.pacer.InflightBytes -= b
	return b
}

// receiveAck takes an ACK or NAK.
func (f *Flow) receiveAck(id int32) {
	n, p := f.net, f.pacer
	if p == nil {
		return
	}
	pk, c := &n.pkts[id], &n.meta[id]
	nak := pk.kind == kindNak
	var fresh, lost int64
	if f.sel != nil {
		fresh, lost = f.ackSelective(pk, c)
	} else {
		fresh = f.ackGoBackN(c.cum)
	}
	if fresh > 0 {
		f.backoff = 0
		f.deadline = 0
		if f.una < f.high {
			f.restartRTO()
		}
	}
	if nak {
		lost = f.goBack(c.cum)
		f.deadline = 0 // runs again with the first packet
	}
	p.wake(f)

	a := &n.ack
	*a = Ack{
		Flow: f, PSN: pk.psn, Bytes: fresh, Packets: uint32(c.packets), CE: uint32(c.ce),
		Duplicate: fresh == 0, Retransmit: pk.flags&flagRetransmit != 0,
		T1: c.t1, T2: c.t2, T2Out: c.t2out, T3: p.host.clock.read(n.wheel.now), RTTNs: (n.wheel.now - pk.sent).ns(),
		Hops: c.links, CreditBytes: int64(c.credit), Tag: c.tag,
	}
	if n.needs.INT {
		a.INT = n.ints[id][:c.links-1]
	}
	now := n.wheel.now.ns()
	p.ctl.Ack(now, p, a)
	if lost > 0 {
		p.ctl.Loss(now, p, f, lost)
	}
	if f.una == f.total {
		n.finish(f)
		return
	}
	p.Update()
}

func (f *Flow) ackGoBackN(cum uint32) int64 {
	if cum <= f.una {
		return 0
	}
	fresh := f.bytes(f.una, cum)
	f.pacer.InflightBytes -= f.bytes(f.una, min(cum, f.next))
	f.una = cum
	f.skipTo(cum)
	return fresh
}

// skipTo does not send again what was acknowledged after a return.
func (f *Flow) skipTo(psn uint32) {
	if f.next < psn {
		f.next = psn
		if f.sending && !f.wantsToSend() {
			f.pacer.turn(f)
		}
	}
}

// ackSelective returns the payload newly acknowledged and that newly found lost.
func (f *Flow) ackSelective(pk *packet, c *packetMeta) (fresh, lost int64) {
	s := f.sel
	if s.acked.count == 0 && s.lost.count == 0 {
		// The usual case, which needs no look at the packets.
		if c.cum > f.una {
			fresh = f.bytes(f.una, c.cum)
			f.pacer.InflightBytes -= fresh
		}
	} else {
		for psn := f.una; psn < c.cum; psn++ {
			fresh += f.gotAck(psn)
		}
	}
	if c.cum > f.una {
		f.una = c.cum
		s.acked.advance(f.una)
		s.lost.advance(f.una)
	}
	for i, w := range c.sack {
		for ; w != 0; w &= w - 1 {
			fresh += f.gotAck(c.cum + 1 + uint32(i*64+bits.TrailingZeros64(w)))
		}
	}
	fresh += f.gotAck(pk.psn)
	// Paths keep the order, so what was sent before the packet that this answers
	// and has not come, will not come.
	reorder := f.net.cfg.ReorderPackets
	for s.first != f.xmit && int32(c.xmit-s.first) > int32(reorder) {
		lost += f.lose(s.pull())
	}
	if f.sending && !f.wantsToSend() {
		f.pacer.turn(f)
	}
	return fresh, lost
}

func (f *Flow) gotAck(psn uint32) int64 {
	s := f.sel
	if psn < f.una || psn >= f.high || !s.acked.add(psn) {
		return 0
	}
	b := int64(f.payload(psn))
	if !s.lost.remove(psn) {
		f.pacer.InflightBytes -= b
	}
	return b
}
