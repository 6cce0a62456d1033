// SPDX-License-Identifier: Apache-2.0

package ooo

import (
	"slices"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Loss is found by time, as RACK does (RFC 8985), and per path: packets of one path may overtake
// each other, and packets of different paths do so all the time. A packet is lost
//
//   - when a packet that was sent later on the same path is answered, and more time has passed
//     than the RTT of the path and its variation explain;
//   - when one that was sent later on another path is answered, and 5/4 of that time have passed;
//   - without such an answer, when twice that time and MinRTO have passed, doubled for each time
//     that nothing at all was answered meanwhile. Then one packet of each path is sent again, and
//     the others when that time has passed once more: the target may be late with all answers.
//     No path is to blame before silentLosses such times.
//
// What the variation explains is multiplied by the tolerance. It grows with each packet that was found
// lost and is answered after all, and shrinks with each answer in time: about one of spuriousShare
// packets is sent again without need. So the limit follows that quantile of the RTT, whatever the
// reordering is.
type lossState struct {
	tolerance  Time // a factor, in toleranceUnit
	backoff    uint
	backedOff  Time // last growth of backoff, or the time at which it would have grown
	silences   int  // number of silences since the last answer
	lastAnswer Time

	credit   int // packets sent, as far as probes may be sent for them
	suspects fifo[rocev2.PSN]
}

const (
	toleranceUnit = 1 << 12
	toleranceMin  = toleranceUnit / 4
	toleranceMax  = 4 * toleranceUnit
	toleranceStep = toleranceUnit / 4
	spuriousShare = 256
	maxBackoff    = 6
)

func (l *lossState) init() {
	l.tolerance = toleranceUnit
	l.suspects.limit = maxProbes
}

// progress notes an answer.
func (l *lossState) progress(now Time) { l.lastAnswer, l.backoff, l.silences = now, 0, 0 }

// inTime notes that the latest transmission of a packet is answered.
func (l *lossState) inTime() {
	l.tolerance = max(l.tolerance-toleranceStep/spuriousShare, toleranceMin)
}

// spurious notes that a packet was found lost, and its original is answered.
func (l *lossState) spurious() { l.tolerance = min(l.tolerance+toleranceStep, toleranceMax) }

// delay returns after what time a packet of this path is lost if a later one was answered.
func (s *sender) delay(p *path) Time {
	r := s.paths.estimate(p)
	if r.samples == 0 {
		return s.q.cfg.InitialRTO
	}
	slack := max(2*r.variation, r.smoothed/4, s.q.cfg.MinReorder)
	return r.smoothed + slack*s.loss.tolerance/toleranceUnit
}

// RTT returns the smoothed round-trip time of all paths, 0 before the first sample.
func (q *QP) RTT() Time { return q.snd.paths.all.smoothed }

// RTO returns after what time a packet is lost if nothing is answered, of the path whose RTT is
// the largest.
func (q *QP) RTO() Time {
	var longest Time
	for i := range q.snd.paths.list {
		longest = max(longest, q.snd.timeout(&q.snd.paths.list[i]))
	}
	return longest
}

func (s *sender) timeout(p *path) Time {
	return max(2*s.delay(p), s.q.cfg.MinRTO) << s.loss.backoff
}

// due returns when packet k is lost.
func (s *sender) due(p *path, k *packet) Time {
	switch {
	case k.sent < p.newest:
		return k.sent + s.delay(p)
	case k.sent < s.paths.newest && s.loss.backoff == 0:
		return k.sent + s.delay(p)*5/4
	}
	return max(k.sent, p.silence) + s.timeout(p)
}

// findLost marks the packets that are lost at now. In the list of a path the earliest sent packet
// is the first to be lost.
func (s *sender) findLost(now Time) {
	for i := range s.paths.list {
		p := &s.paths.list[i]
		for p.head >= 0 && !s.q.ended {
			k := &s.packets.ring[p.head]
			if now < s.due(p, k) {
				break
			}
			s.lose(now, p, k)
		}
	}
}

func (s *sender) lose(now Time, p *path, k *packet) {
	silent, all := k.sent >= p.newest, k.sent >= s.paths.newest
	if silent {
		s.q.cfg.Count.LostTimeout++
		if since := max(k.sent, p.silence); s.loss.lastAnswer <= since && s.loss.backedOff <= since {
			s.loss.backoff = min(s.loss.backoff+1, maxBackoff)
			s.loss.backedOff = now
			s.loss.silences++
		}
	} else {
		s.q.cfg.Count.LostReorder++
	}
	s.drop(k)
	switch {
	case s.q.ended:
	case all && s.loss.silences < silentLosses:
		p.silence = now
	case s.paths.lost(p, silent):
		s.replace(p)
		fallthrough
	case silent:
		s.paths.railLost(now, k.sent, int(p.rail), s.timeout(p)>>s.loss.backoff)
	}
}

// replace gives a path another port. Its packets in flight are lost, too.
func (s *sender) replace(p *path) {
	s.q.cfg.Count.PathsReplaced++
	for p.head >= 0 && !s.q.ended {
		s.q.cfg.Count.LostPath++
		s.drop(&s.packets.ring[p.head])
	}
	s.paths.replace(p)
}

// drop takes a packet out of flight for a retransmission, or ends the queue pair if it has had
// its transmissions, or nothing at all was answered so many times: new paths carry one packet each,
// so that many packets take turns.
func (s *sender) drop(k *packet) {
	s.unlink(k)
	s.packets.putLost(k)
	if max(int(k.tries), s.loss.silences) >= s.q.cfg.Tries {
		s.q.end(verbs.StatusRetryExceeded)
	}
}

// deadline returns when the next packet is lost or probed, or a refused notification is to be repeated.
func (s *sender) deadline() (at Time) {
	earlier := func(t Time) {
		if at == 0 || t < at {
			at = t
		}
	}
	for i := range s.paths.list {
		if p := &s.paths.list[i]; p.head >= 0 {
			earlier(s.due(p, &s.packets.ring[p.head]))
		}
	}
	if at != 0 && s.mayProbe() {
		for i := range s.paths.list {
			if k, t := s.suspect(&s.paths.list[i]); k != nil {
				earlier(t)
			}
		}
	}
	for _, psn := range s.packets.deferred {
		if k := s.packets.get(psn); k != nil {
			earlier(k.notBefore)
		}
	}
	return at
}

func (s *sender) expire(now Time) {
	s.now = now
	s.packets.deferred = slices.DeleteFunc(s.packets.deferred, func(psn rocev2.PSN) bool {
		k := s.packets.get(psn)
		if k == nil || k.state != packetDeferred {
			return true
		}
		if k.notBefore > now {
			return false
		}
		s.packets.putLost(k)
		return true
	})
	s.findLost(now)
	s.findSuspects(now)
}

// transmission is which transmission of a packet an answer belongs to.
type transmission uint8

const (
	transmissionUnknown transmission = iota
	transmissionLatest
	transmissionBefore
)

// transmission compares the echoed T1 with the send times. T1 is not earlier than the send time
// of its own transmission, and earlier than that of the next. Without T1, an answer that comes sooner
// after a retransmission than any RTT belongs to the original.
func (s *sender) transmission(k *packet, echoUs uint32) transmission {
	switch {
	case echoUs == 0 && k.tries == 1:
		return transmissionLatest
	case echoUs == 0 && k.tries >= 2 && s.now-k.sent < s.paths.all.least:
		return transmissionBefore
	case echoUs == 0:
		return transmissionUnknown
	case int32(echoUs-s.stamped(k.sent)) >= 0:
		return transmissionLatest
	case k.tries >= 2 && int32(echoUs-s.stamped(k.before)) >= 0:
		return transmissionBefore
	}
	return transmissionUnknown
}

// stamped returns a send time as the echo of a stamp has it.
func (s *sender) stamped(t Time) uint32 { return microseconds(t + s.stampOffset) }

// sample takes the RTT of a transmission.
func (s *sender) sample(now Time, k *packet, t transmission, congested bool) {
	s.loss.progress(now)
	sent, ref := k.sent, k.path
	switch t {
	case transmissionUnknown:
		return
	case transmissionBefore:
		sent, ref = k.before, k.pathBefore
		s.q.cfg.Count.Spurious++
		s.paths.answered(ref)
		if k.probes == 0 {
			s.loss.spurious()
		}
	case transmissionLatest:
		if !k.credited {
			s.loss.inTime()
			s.paths.answered(ref)
		}
		if k.probes > 0 && k.tries > 1 && k.state == packetInFlight {
			s.probeAnswered(k)
		}
	}
	if p := s.paths.get(ref); p != nil && !k.credited {
		p.window.answered()
	}
	s.paths.sample(now, ref, sent, congested)
}
