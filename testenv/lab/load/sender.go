// SPDX-License-Identifier: Apache-2.0

package load

import (
	"math"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
)

// sender is the requester of one queue pair: a window of packets, go-back-N,
// and the round-trip time. It neither sends nor reads a clock.
//
// Packets are counted from 0 without wrapping; the PSN is the count's low 24
// bits, offset by the first PSN. Messages are all of one size, so a packet's
// place in its message follows from its number.
type sender struct {
	qpn         uint32
	pmtu        int
	message     int    // bytes
	perMessage  uint64 // packets
	window      uint64 // packets
	ackEvery    uint64
	minRTO      time.Duration
	next        uint64 // the next to send
	una         uint64 // the oldest without ACK
	high        uint64 // one past the highest ever sent
	end         uint64 // one past the last to send; MaxUint64 = no end yet
	sentAt      []time.Time
	resent      []bool
	progress    time.Time // last restart of the retransmission timer
	moved       time.Time // time at which una last moved, or the first packet was sent
	backoff     uint      // timeouts since una last moved
	srtt        time.Duration
	rttvar      time.Duration
	ackedBytes  uint64
	retransmits uint64
	timeouts    uint64
	naks        uint64
}

const maxRTO = time.Second

func newSender(qpn uint32, pmtu, message, window, ackEvery int, minRTO time.Duration) *sender {
	return &sender{
		qpn:        qpn,
		pmtu:       pmtu,
		message:    message,
		perMessage: uint64(max(1, (message+pmtu-1)/pmtu)),
		window:     uint64(window),
		ackEvery:   uint64(ackEvery),
		minRTO:     minRTO,
		end:        math.MaxUint64,
		sentAt:     make([]time.Time, window),
		resent:     make([]bool, window),
	}
}

// segment is one packet of a message.
type segment struct {
	opcode rocev2.Opcode
	psn    rocev2.PSN
	va     uint64 // address of its payload
	length int
	ackReq bool
}

// segment describes packet i.
func (s *sender) segment(i uint64) segment {
	msg, pos := i/s.perMessage, i%s.perMessage
	last := pos == s.perMessage-1
	seg := segment{
		opcode: rocev2.RCWriteMiddle,
		psn:    firstPSN(s.qpn).Add(int(i & rocev2.PSNMask)),
		va:     msg*uint64(s.message) + pos*uint64(s.pmtu),
		length: s.pmtu,
		ackReq: last || (pos+1)%s.ackEvery == 0,
	}
	switch {
	case s.perMessage == 1:
		seg.opcode = rocev2.RCWriteOnly
	case pos == 0:
		seg.opcode = rocev2.RCWriteFirst
	case last:
		seg.opcode = rocev2.RCWriteLast
	}
	if last {
		seg.length = s.message - int(pos)*s.pmtu
	}
	return seg
}

// take returns the next packet to send, if the window has room.
func (s *sender) take(now time.Time) (i uint64, ok bool) {
	if s.next >= s.end || s.next >= s.una+s.window {
		return 0, false
	}
	i = s.next
	s.next++
	slot := i % s.window
	if i < s.high {
		s.retransmits++
		s.resent[slot] = true
	} else {
		s.high = s.next
		s.resent[slot] = false
	}
	if i == s.una {
		s.progress = now
	}
	if s.moved.IsZero() {
		s.moved = now
	}
	s.sentAt[slot] = now
	return i, true
}

// unsend takes back packets [i, i+n) of the latest calls of take, because the
// kernel did not accept them. high is what s.high was before those calls.
func (s *sender) unsend(i uint64, n int, high uint64) {
	if high > i {
		s.retransmits -= min(high-i, uint64(n))
	}
	s.high = max(high, i)
	s.next = min(s.next, max(i, s.una)) // a NAK may have moved it further back meanwhile
}

// index returns the number of the packet with this PSN among those in flight.
func (s *sender) index(psn rocev2.PSN) (i uint64, ok bool) {
	ahead := psn.Diff(firstPSN(s.qpn).Add(int(s.una & rocev2.PSNMask)))
	i = s.una + uint64(int64(ahead))
	return i, ahead >= 0 && i < s.high
}

// ack handles a positive acknowledgement: everything up to psn has arrived. The
// round-trip time is returned if this ACK measures one (Karn: not of packets
// that were sent twice).
func (s *sender) ack(psn rocev2.PSN, now time.Time) (rtt time.Duration, measured bool) {
	i, ok := s.index(psn)
	if !ok {
		return 0, false
	}
	slot := i % s.window
	if !s.resent[slot] {
		rtt, measured = now.Sub(s.sentAt[slot]), true
		s.sample(rtt)
	}
	s.arrived(i+1, now)
	return rtt, measured
}

// nak handles a PSN sequence error: the responder waits for psn.
func (s *sender) nak(psn rocev2.PSN, now time.Time) {
	i, ok := s.index(psn)
	if !ok {
		return
	}
	s.naks++
	s.arrived(i, now)
	s.next = i
}

// arrived notes that all packets below i have arrived.
func (s *sender) arrived(i uint64, now time.Time) {
	if i == s.una {
		return
	}
	s.ackedBytes += s.bytesBelow(i) - s.bytesBelow(s.una)
	s.una = i
	s.next = max(s.next, i)
	s.progress, s.moved = now, now
	s.backoff = 0
}

// bytesBelow is the payload of all packets below i.
func (s *sender) bytesBelow(i uint64) uint64 {
	return i/s.perMessage*uint64(s.message) + i%s.perMessage*uint64(s.pmtu)
}

// sample updates the smoothed round-trip time (RFC 6298, 2.3).
func (s *sender) sample(rtt time.Duration) {
	if s.srtt == 0 {
		s.srtt, s.rttvar = rtt, rtt/2
		return
	}
	s.rttvar += ((s.srtt - rtt).Abs() - s.rttvar) / 4
	s.srtt += (rtt - s.srtt) / 8
}

// deadline is when a timeout is due; zero if nothing is outstanding.
func (s *sender) deadline() time.Time {
	if s.una == s.high {
		return time.Time{}
	}
	rto := max(s.minRTO, s.srtt+4*s.rttvar)
	return s.progress.Add(min(rto<<s.backoff, max(maxRTO, rto)))
}

// expire goes back to the oldest unacknowledged packet if the deadline passed.
func (s *sender) expire(now time.Time) bool {
	d := s.deadline()
	if d.IsZero() || now.Before(d) {
		return false
	}
	s.timeouts++
	s.backoff = min(s.backoff+1, 10)
	s.next = s.una
	s.progress = now
	return true
}

// finish lets the message that is being sent be the last.
func (s *sender) finish() {
	if s.end == math.MaxUint64 {
		s.end = (s.high + s.perMessage - 1) / s.perMessage * s.perMessage
	}
}

// done reports whether everything was sent and acknowledged.
func (s *sender) done() bool { return s.una >= s.end }

// outstanding is the number of packets sent and not acknowledged.
func (s *sender) outstanding() uint64 { return s.next - s.una }
