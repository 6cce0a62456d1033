// SPDX-License-Identifier: Apache-2.0

package precredit

import (
	"slices"
	"time"
)

// Bound says which classes of flows send nothing but pre-credit until the first feedback of
// a receiver.
type Bound uint8

// The values of Bound.
const (
	BoundLarge Bound = iota // large flows; small ones go on at the rate of the policy
	BoundAll
	BoundNone
)

// SenderParams are the parameters of a Sender.
type SenderParams struct {
	LinkBps uint64 // rate of the link, bits per second
	// RTTNs is the base RTT to plan with, nanoseconds. Shorter RTTs are taken for this
	// one: hosts cause more of their variation than the network does.
	RTTNs int64
	// BDPBytes is the bandwidth-delay product: flows up to it are small, and as much
	// pre-credit may leave ahead of the rate.
	BDPBytes uint32
	// FlowBytes is how much of a flow may be sent on pre-credit; 0 = BDPBytes. It is rounded
	// up to whole packets of the flow.
	FlowBytes uint32
	// MaxWaitNs is the longest that a flow is blocked in the first flight, nanoseconds.
	MaxWaitNs int64
	// SmallBias and AgingStep order the flows that wait for pre-credit, see Queue.
	SmallBias, AgingStep uint32
	Bound                Bound
}

// reportGap is the least time between two reports of losses, nanoseconds.
const reportGap = int64(time.Millisecond)

// Sender is a sender's half towards one receiver: which packets leave on pre-credit, which
// flows have to wait for feedback, and the window after it. It does no I/O and reads no
// clock: the caller reports events with the time, in nanoseconds of a clock that is never
// set, and asks what may be sent.
//
// A flow is what is posted from the moment that nothing of it is outstanding until its first
// ACK. The first flight lasts from the moment that nothing is outstanding to the receiver
// until anything is received from it. Flows that Bound names send nothing but pre-credit
// meanwhile, or one packet if nothing else is in flight. If one had to wait, the
// window grows from what was in flight at the end of the first flight (Ramp).
//
// Methods that return a Return say with send whether the caller must send it as a
// CREDIT_RETURN. After each method that may end a wait (Grant, Answer, Timeout, Expire,
// Stop, End) the caller takes the flows of Released.
type Sender struct {
	p    SenderParams
	src  Source
	ramp Ramp

	firstFlight bool
	waiting     []*Flow // blocked in the first flight
	waitSince   int64   // time at which the first of them was blocked
	released    []*Flow

	rtt       int64 // the latest, 0 = none yet
	round     int64 // beginning of the present round trip
	reported  int64 // time at which a loss was last reported
	lossKnown bool  // reported is a time
	stats     SenderStats
}

// SenderStats count since the sender was made.
type SenderStats struct {
	Waits uint64 // flows that were blocked in the first flight
	Ramps uint64 // first flights after which the window had to grow
}

// add adds the counters of another sender.
func (s *SenderStats) add(o SenderStats) {
	s.Waits += o.Waits
	s.Ramps += o.Ramps
}

// NewSender makes a sender.
func NewSender(p SenderParams) *Sender {
	if p.FlowBytes == 0 {
		p.FlowBytes = p.BDPBytes
	}
	s := &Sender{p: p}
	s.src.SmallBias, s.src.AgingStep = p.SmallBias, p.AgingStep
	return s
}

// Stats are the counters.
func (s *Sender) Stats() SenderStats { return s.stats }

// Work is what a caller posts to a flow.
type Work struct {
	// First: nothing of the flow was outstanding before, so that a new flow begins.
	First bool
	// Idle: nothing at all was outstanding to the receiver before.
	Idle  bool
	Bytes uint64
	// Features of this work. Sizes of several works of a flow add up; BDPBytes is
	// that of SenderParams.
	Features Features
}

// Post adds data to a flow. A new flow that finds no pre-credit is reported, so that the
// receiver may grant some.
func (s *Sender) Post(now int64, f *Flow, w Work) (r Return, send bool) {
	switch {
	case w.First:
		s.src.Drop(f)
		s.release(f)
		f.begin()
		if w.Idle {
			s.firstFlight = true
			s.ramp.End()
		}
	case !f.begun:
		return Return{}, false
	}
	f.features.TotalBytes += w.Features.TotalBytes
	f.features.PostedBytes += w.Features.PostedBytes
	f.features.RegionBytes += w.Features.RegionBytes
	f.features.Verb, f.features.BDPBytes = w.Features.Verb, uint64(s.p.BDPBytes)

	room := s.limit(f) - f.queued
	more := uint32(min(w.Bytes, uint64(room)))
	f.queued += more
	f.capped = f.capped || w.Bytes > uint64(room)
	if class := Classify(f.features); class != f.class {
		more += f.left
		s.src.Drop(f)
		f.class = class
	}
	if w.First && s.src.Usable(now) == 0 {
		r, send = s.src.Report()
	}
	s.src.Push(f, f.class, more)
	s.beginRound(now, f.Packet)
	return r, send
}

// limit is how much of a flow may be sent on pre-credit.
func (s *Sender) limit(f *Flow) uint32 {
	packet := max(f.Packet, 1)
	n := max(s.p.FlowBytes, packet)
	return n + packet - 1 - (n-1)%packet
}

// End is called when a flow has nothing to send any more, or is destroyed.
func (s *Sender) End(f *Flow) {
	s.src.Drop(f)
	f.begun = false
	s.release(f)
}

// Next is the flow whose next packet may leave on pre-credit now, nil = none. ahead is how
// many bytes have left before the rate of the policy allows them: pre-credit waits if that is
// more than a bandwidth-delay product, or a sender of nothing but small flows would have no
// rate.
func (s *Sender) Next(now int64, ahead uint32) *Flow {
	f := s.src.Head()
	if f == nil || ahead > s.p.BDPBytes || s.src.Ready(now) < s.need(f) {
		return nil
	}
	return f
}

// need is the pre-credit that the next packet of a flow may take, bytes. Where a flow has
// more data than it may send on pre-credit, the last packet may be longer than what is left.
func (s *Sender) need(f *Flow) uint32 {
	if f.capped {
		return f.Packet
	}
	return min(f.left, f.Packet)
}

// Waits reports whether any flow waits for pre-credit.
func (s *Sender) Waits() bool { return s.src.Len() > 0 }

// WantsAck reports whether the packet that Next has just allowed should request an ACK: the
// first one, for feedback after one RTT, and the last one that pre-credit is there for.
func (s *Sender) WantsAck(now int64, f *Flow) bool {
	if f.asked && s.src.Ready(now) >= 2*f.Packet {
		return false
	}
	f.asked = true
	return true
}

// Sent is called with each data packet of a flow. ahead: Next allowed it. again: it was sent
// before; retransmissions are never on pre-credit. The stamp of the packet must have
// c if credited.
func (s *Sender) Sent(now int64, f *Flow, n uint32, ahead, again bool) (c Credit, credited bool) {
	switch {
	case again && ahead:
		s.src.Drop(f)
		return Credit{}, false
	case !f.begun || again || n == 0:
		return Credit{}, false
	case !ahead:
		s.src.Pass(f, n)
		return Credit{}, false
	}
	if f.left < n {
		s.src.Push(f, f.class, n-f.left)
	}
	if s.src.Head() == f {
		if p, ok := s.src.SrcSchedulePrecredit(now, n); ok {
			return p.Credit, true
		}
	}
	s.src.Drop(f)
	return Credit{}, false
}

// MayStart reports whether a flow may send a packet without pre-credit. If not, it waits
// until Released returns it. busy: bytes are in flight to the receiver. ask: the packet
// must request an ACK, since no other one is in flight.
func (s *Sender) MayStart(now int64, f *Flow, busy bool) (may, ask bool) {
	bound := s.p.Bound == BoundAll || s.p.Bound == BoundLarge && f.class == Large
	if !bound || !f.begun || !s.firstFlight {
		return true, false
	}
	if !busy {
		return true, true
	}
	if !f.waiting {
		f.waiting = true
		if len(s.waiting) == 0 {
			s.waitSince = now
		}
		s.waiting = append(s.waiting, f)
		s.stats.Waits++
	}
	return false, false
}

// Answer is an ACK, a NAK or a response of the receiver.
type Answer struct {
	Credit    Credit // credit of its stamp
	HasCredit bool
	RTTNs     int64  // measured by it, nanoseconds; 0 = none
	InFlight  uint64 // bytes in flight to the receiver before it
	Acked     uint64 // bytes of InFlight that it acknowledges
	RateBps   uint64 // rate of the policy, 0 = not limited
}

// Answer takes feedback: it ends the flow's use of pre-credit, and the first flight.
func (s *Sender) Answer(now int64, f *Flow, a Answer) {
	if a.HasCredit {
		before := s.src.Usable(now)
		s.src.Account.Credit(now, a.Credit)
		s.src.Risen(now, before)
	}
	if a.RTTNs > 0 {
		s.rtt = a.RTTNs
		s.src.SrcFixPrecredit(a.RTTNs)
	}
	s.src.Drop(f)
	f.begun = false
	s.endFirstFlight(a.InFlight)
	s.beginRound(now, f.Packet)
	base := s.baseRTT()
	s.ramp.Ack(uint32(min(a.Acked, maxBuffer)), s.latestRTT()-base, base, s.enough(base, a.RateBps))
}

// beginRound begins a round if the last one began an RTT ago.
func (s *Sender) beginRound(now int64, packet uint32) {
	if now-s.round >= s.latestRTT() {
		s.round = now
		s.src.NextRound(now, packet)
	}
}

// baseRTT is the least RTT, but at least the one planned with.
func (s *Sender) baseRTT() int64 { return max(s.src.Base(), s.p.RTTNs) }

func (s *Sender) latestRTT() int64 {
	if s.rtt == 0 {
		return s.p.RTTNs
	}
	return s.rtt
}

// enough is the window at which the rate of the policy takes over: the bytes in flight at that
// rate, but at most two bandwidth-delay products.
func (s *Sender) enough(base int64, rateBps uint64) uint32 {
	n := 2 * BDP(s.p.LinkBps, base)
	if rateBps != 0 {
		n = min(n, BDP(rateBps, s.latestRTT()))
	}
	return n
}

// endFirstFlight lets all flows send. Those that waited do not begin with all that the rate
// allows, but with what was in flight.
func (s *Sender) endFirstFlight(inFlight uint64) {
	if s.firstFlight && len(s.waiting) > 0 {
		s.stats.Ramps++
		s.ramp.Begin(uint32(min(max(inFlight, 1), maxBuffer)))
	}
	s.firstFlight = false
	s.releaseAll()
}

// Window is the limit on bytes in flight to the receiver; ok is false if there is none.
func (s *Sender) Window() (bytes uint32, ok bool) { return s.ramp.Window() }

// Grant takes a CREDIT_GRANT. send is false if it is out of date.
func (s *Sender) Grant(now int64, g Grant) (r Return, send bool) {
	before := s.src.Usable(now)
	if r, send = s.src.Account.Grant(now, g); send {
		s.src.Risen(now, before)
		s.releaseAll() // they may have pre-credit now
	}
	return r, send
}

// Usable is how much pre-credit there is now, bytes.
func (s *Sender) Usable(now int64) uint32 { return s.src.Usable(now) }

// Seq is the number of the latest grant.
func (s *Sender) Seq() uint16 { return s.src.Seq() }

// Loss is called when a packet was sent again because the receiver missed it. The report
// shows the receiver what was sent, so that it finds what was lost.
func (s *Sender) Loss(now int64) (r Return, send bool) {
	if s.lossKnown && now-s.reported < reportGap {
		return Return{}, false
	}
	s.reported, s.lossKnown = now, true
	return s.src.Report()
}

// Timeout is called when a timer of the transport ran out. ack: it waited for an ACK, so that
// nothing is known of the path, and all pre-credit is void. The first flight ends: it
// could last for ever.
func (s *Sender) Timeout(ack bool, inFlight uint64) (r Return, send bool) {
	if ack {
		r, send = s.src.GiveUp()
	}
	s.endFirstFlight(inFlight)
	return r, send
}

// Deadline is when to call Expire, 0 = never.
func (s *Sender) Deadline() int64 {
	at := s.src.Deadline()
	if len(s.waiting) > 0 {
		if end := s.waitSince + s.p.MaxWaitNs; at == 0 || end < at {
			at = end
		}
	}
	return at
}

// Expire gives up pre-credit that was not used for its life, and ends a first flight in which
// a flow has waited for MaxWaitNs: the packets in flight may be of a flow that was destroyed.
func (s *Sender) Expire(now int64, inFlight uint64) (r Return, send bool) {
	if len(s.waiting) > 0 && now-s.waitSince >= s.p.MaxWaitNs {
		s.endFirstFlight(inFlight)
	}
	return s.src.Expire(now)
}

// Stop ends pre-credit with the receiver: all that is unused is given up. The
// caller calls End for each flow.
func (s *Sender) Stop() (r Return, send bool) {
	r, send = s.src.GiveUp()
	s.firstFlight = false
	s.ramp.End()
	s.releaseAll()
	return r, send
}

// Released are the flows that have stopped waiting since the last call, in order. They may
// have to wait again: see MayStart. The slice is valid until the next call of a method.
func (s *Sender) Released() []*Flow {
	flows := s.released
	s.released = s.released[:0]
	return flows
}

func (s *Sender) releaseAll() {
	for i, f := range s.waiting {
		f.waiting = false
		s.released = append(s.released, f)
		s.waiting[i] = nil
	}
	s.waiting = s.waiting[:0]
}

// release has a flow wait no more, without a call of Released.
func (s *Sender) release(f *Flow) {
	if f.waiting {
		f.waiting = false
		i := slices.Index(s.waiting, f)
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
}

// Skip has no more of a flow sent on pre-credit until more is posted.
func (s *Sender) Skip(f *Flow) { s.src.Drop(f) }

// Blocked reports whether a flow waits in the first flight.
func (s *Sender) Blocked() bool { return len(s.waiting) > 0 }

// Idle releases flows that wait although nothing is in flight to the receiver any more, as
// after a flow has failed.
func (s *Sender) Idle() { s.releaseAll() }
