// SPDX-License-Identifier: Apache-2.0

package ooo

import (
	"math/bits"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// answer notes that packet k is answered. Only the first answer counts: a counter that repeated
// responses decrease would reach zero early (S3.5).
func (s *sender) answer(k *packet) {
	if k.state == packetAnswered {
		s.q.cfg.Count.Repeated++
		return
	}
	if k.state == packetInFlight {
		s.unlink(k)
	}
	k.state = packetAnswered
	s.packets.open--
	s.q.cfg.Count.Answered++
	s.packets.advance()
	m := s.messages.get(k.id)
	m.outstanding--
	s.settle(m)
}

// answeredDirectly processes the answer to packet k itself, as opposed to its bit in the answer to
// another one. t is the transmission that it answers.
func (s *sender) answeredDirectly(now Time, k *packet, t transmission, congested bool) {
	s.sample(now, k, t, congested)
	s.answer(k)
}

// onAck processes an OACK. k is the packet that it answers, or nil if that is long answered; the
// rest of the OACK may be news even then. A window of nothing would never open again: no timer asks
// for it.
//
// The bitmap says which packets have arrived. For READ requests and notifications that is no
// answer: the answer is the data, and the acknowledgement.
func (s *sender) onAck(now Time, psn rocev2.PSN, k *packet, f *rocev2.OACKFields, congested bool) {
	b := &s.packets
	after := f.Cumulative.Add(1)
	if after.After(b.next) || f.Base != psn&^63 || !psn.Before(b.next) || f.Window == 0 {
		s.q.cfg.Count.Malformed++
		return
	}
	b.window = int(f.Window)
	b.accept(after)
	if k == nil {
		s.q.cfg.Count.Stray++
	} else {
		s.sample(now, k, s.transmission(k, f.EchoUs), congested)
		if k.kind == packetWrite || k.kind == packetVoid {
			s.answer(k)
		}
	}
	for p := b.una; p.Before(after); p = p.Add(1) {
		s.arrived(p)
	}
	for word := f.Bitmap; word != 0; word &= word - 1 {
		if p := f.Base.Add(bits.TrailingZeros64(word)); !p.Before(b.una) && p.Before(b.next) {
			s.arrived(p)
		}
	}
}

// arrived processes that packet p has arrived at the target.
func (s *sender) arrived(p rocev2.PSN) {
	k := s.packets.get(p)
	if k != nil && k.state != packetAnswered && (k.kind == packetWrite || k.kind == packetVoid) {
		s.credit(k)
		s.answer(k)
	}
}

// credit counts an answer for the path of a packet that was sent once. Its own OACK may never come, as the
// target sends none that a later one contains. If it comes, it brings no more than an RTT.
func (s *sender) credit(k *packet) {
	if k.state != packetInFlight || k.tries != 1 {
		return
	}
	k.credited = true
	s.loss.inTime()
	if p := s.paths.answered(k.path); p != nil {
		p.window.answered()
	}
}

// onReadResponse places the data of an OREAD_RESP, once, while its message has not failed.
func (s *sender) onReadResponse(now Time, k *packet, f *rocev2.OETHFields, data []byte, congested bool) {
	m := s.messages.get(k.id)
	if m == nil || k.state == packetAnswered {
		s.q.cfg.Count.Repeated++
		return
	}
	_, n := m.offset(k.index)
	if f.Index != k.index || f.Length != n || len(data) != int(n) {
		s.q.cfg.Count.Malformed++
		return
	}
	if m.result == 0 && n > 0 && !s.writeMemory(m, k, data) {
		s.fail(m, verbs.StatusLocalProtection)
	}
	t := transmissionUnknown
	switch {
	case k.tries == 1 || k.tries == 2 && f.Flags&rocev2.ORetry != 0:
		t = transmissionLatest
	case k.tries == 2:
		t = transmissionBefore
	}
	s.answeredDirectly(now, k, t, congested)
}

// onNak processes a refusal. A notification that the target could not take is repeated later.
// Everything else fails the message; an empty packet then takes the PSN, so that the window of
// the target moves on.
func (s *sender) onNak(now Time, k *packet, code rocev2.ONakCode) {
	m := s.messages.get(k.id)
	if m == nil || k.state != packetInFlight && k.state != packetLost {
		s.q.cfg.Count.Repeated++
		return
	}
	if k.state == packetInFlight {
		s.unlink(k)
		s.paths.answered(k.path)
		s.packets.putLost(k)
	}
	s.loss.progress(now)
	if code == rocev2.ONakNotReady && k.kind == packetNotify && m.result == 0 {
		s.q.cfg.Count.NotReady++
		if m.notReady++; int(m.notReady) < s.q.cfg.NotReadyTries {
			k.state, k.tries = packetDeferred, 0
			k.notBefore = now + s.q.cfg.NotReadyDelay
			s.packets.deferred = append(s.packets.deferred, k.psn)
			return
		}
		s.fail(m, verbs.StatusRNRRetryExceeded)
		return
	}
	s.q.cfg.Count.Naks++
	if k.kind == packetVoid { // late, of the packet before: a target has no reason to refuse an empty one
		if int(k.tries) >= s.q.cfg.Tries {
			s.q.end(verbs.StatusRetryExceeded)
		}
		return
	}
	k.tries = 0
	switch code {
	case rocev2.ONakRemoteAccess:
		s.fail(m, verbs.StatusRemoteAccess)
	case rocev2.ONakRemoteOp:
		s.fail(m, verbs.StatusRemoteOperation)
	default:
		s.fail(m, verbs.StatusRemoteInvalidRequest)
	}
}
