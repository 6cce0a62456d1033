// SPDX-License-Identifier: Apache-2.0

package load

import (
	"encoding/binary"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/rocev2"
)

// asRequest is the packet that the sender would build for a segment.
func asRequest(s *sender, seg segment) request {
	q := request{opcode: seg.opcode, psn: seg.psn, ackReq: seg.ackReq, payload: patternAt(s.qpn, seg.va, seg.length)}
	if seg.opcode.Ext()&rocev2.ExtRETH != 0 {
		q.reth = make(rocev2.RETH, rocev2.RETHLen)
		q.reth.SetVA(seg.va)
		q.reth.SetRKey(rkeyOf(s.qpn))
		q.reth.SetDMALen(uint32(s.message))
	}
	return q
}

func TestSegmentsOfAMessage(t *testing.T) {
	s := newSender(7, 1024, 2500, 64, 2, time.Second)
	first := firstPSN(7)
	want := []segment{
		{rocev2.RCWriteFirst, first, 0, 1024, false},
		{rocev2.RCWriteMiddle, first.Add(1), 1024, 1024, true},
		{rocev2.RCWriteLast, first.Add(2), 2048, 452, true},
		{rocev2.RCWriteFirst, first.Add(3), 2500, 1024, false},
	}
	for i, w := range want {
		if got := s.segment(uint64(i)); got != w {
			t.Errorf("packet %d: %+v, want %+v", i, got, w)
		}
	}
	only := newSender(7, 1024, 1024, 64, 16, time.Second)
	if got := only.segment(1); got != (segment{rocev2.RCWriteOnly, first.Add(1), 1024, 1024, true}) {
		t.Errorf("message of one packet: %+v", got)
	}
}

// Sender and responder over a wire that loses packets and ACKs, delays them and
// lets them overtake each other: everything arrives once, in order, and nothing
// but time is needed for it.
func TestEverythingArrivesOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		qpn := rapid.Uint32Range(2, rocev2.PSNMask).Draw(t, "qpn")
		pmtu := rapid.SampledFrom([]int{256, 1024}).Draw(t, "pmtu")
		message := rapid.IntRange(1, 5*pmtu).Draw(t, "message")
		window := rapid.IntRange(1, 40).Draw(t, "window")
		ackEvery := rapid.IntRange(1, window).Draw(t, "ackEvery")
		loss := rapid.IntRange(0, 30).Draw(t, "loss percent")
		overtake := rapid.IntRange(0, 20).Draw(t, "overtaking percent")
		refuse := rapid.IntRange(0, 20).Draw(t, "refused percent")
		messages := rapid.IntRange(1, 30).Draw(t, "messages")
		dice := rapid.Uint64().Draw(t, "seed")
		roll := func(percent int) bool { // not drawn one by one: a run takes thousands
			dice = dice*6364136223846793005 + 1442695040888963407
			return int(dice>>33%100) < percent
		}

		s := newSender(qpn, pmtu, message, window, ackEvery, 10*time.Millisecond)
		s.end = uint64(messages) * s.perMessage
		r := newResponder(qpn)
		const step = time.Millisecond
		type inFlight struct {
			at time.Time
			q  request
			a  *reply
		}
		var wire []inFlight
		now := time.Unix(0, 0)
		put := func(p inFlight) {
			if roll(loss) {
				return
			}
			p.at = now.Add(2 * step)
			if roll(overtake) {
				p.at = p.at.Add(5 * step)
			}
			wire = append(wire, p)
		}
		for steps := 0; !s.done(); steps++ {
			if steps > 2_000_000 {
				t.Fatalf("no end: %+v", s)
			}
			now = now.Add(step)
			s.expire(now)
			first, high := s.next, s.high
			n := 0
			for n < 8 {
				if _, ok := s.take(now); !ok {
					break
				}
				n++
			}
			if n > 0 && roll(refuse) {
				accepted := n / 2
				s.unsend(first+uint64(accepted), n-accepted, high)
				n = accepted
			}
			for i := range uint64(n) {
				put(inFlight{q: asRequest(s, s.segment(first+i))})
			}
			if s.outstanding() > uint64(window) || s.una > s.next || s.next > s.high {
				t.Fatalf("window broken: %+v", s)
			}
			arriving := wire
			wire = nil
			for _, p := range arriving {
				switch {
				case p.at.After(now):
					wire = append(wire, p)
				case p.a == nil:
					if a := r.handle(p.q); a.send {
						put(inFlight{a: &a})
					}
				case p.a.syndrome.Type() == rocev2.AckPositive:
					s.ack(p.a.psn, now)
				default:
					s.nak(p.a.psn, now)
				}
			}
		}
		want := uint64(messages) * uint64(message)
		if r.count.Bytes != want || s.ackedBytes != want || r.count.Messages != uint64(messages) {
			t.Fatalf("received %d bytes in %d messages, acknowledged %d; want %d in %d",
				r.count.Bytes, r.count.Messages, s.ackedBytes, want, messages)
		}
		if r.count.Mismatches != 0 || r.count.Invalid != 0 {
			t.Fatalf("damaged: %+v", r.count)
		}
		if loss+overtake+refuse == 0 && s.retransmits+s.naks+s.timeouts != 0 {
			t.Fatalf("retransmissions on a perfect wire: %+v", s)
		}
	})
}

func TestResponderNotices(t *testing.T) {
	s := newSender(9, 256, 1024, 16, 4, time.Second)
	at := func(i uint64) request { return asRequest(s, s.segment(i)) }
	for _, c := range []struct {
		name string
		do   func(r *responder) reply
		want rocev2.Syndrome
		ok   func(c Received) bool
	}{
		{"gap", func(r *responder) reply { return r.handle(at(1)) }, rocev2.SyndromeNAK(rocev2.NAKPSNSequence),
			func(c Received) bool { return c.Ahead == 1 && c.Packets == 0 }},
		{"damaged payload", func(r *responder) reply {
			q := at(0)
			q.payload = append([]byte(nil), q.payload...)
			q.payload[100] ^= 1
			q.ackReq = true
			return r.handle(q)
		}, rocev2.SyndromeACK(rocev2.CreditInvalid), func(c Received) bool { return c.Mismatches == 1 }},
		{"wrong address", func(r *responder) reply {
			q := at(0)
			binary.BigEndian.PutUint64(q.reth, 256)
			return r.handle(q)
		}, rocev2.SyndromeNAK(rocev2.NAKInvalidRequest), func(c Received) bool { return c.Invalid == 1 && c.Bytes == 0 }},
		{"wrong key", func(r *responder) reply {
			q := at(0)
			q.reth.SetRKey(1)
			return r.handle(q)
		}, rocev2.SyndromeNAK(rocev2.NAKInvalidRequest), func(c Received) bool { return c.Invalid == 1 }},
		{"middle without first", func(r *responder) reply {
			q := at(1)
			q.psn = firstPSN(9)
			return r.handle(q)
		}, rocev2.SyndromeNAK(rocev2.NAKInvalidRequest), func(c Received) bool { return c.Invalid == 1 }},
		{"last too early", func(r *responder) reply {
			r.handle(at(0))
			q := at(3)
			q.psn = at(1).psn
			return r.handle(q)
		}, rocev2.SyndromeNAK(rocev2.NAKInvalidRequest), func(c Received) bool { return c.Invalid == 1 }},
		{"duplicate", func(r *responder) reply {
			for i := range uint64(4) {
				r.handle(at(i))
			}
			return r.handle(at(3))
		}, rocev2.SyndromeACK(rocev2.CreditInvalid), func(c Received) bool { return c.Duplicates == 1 && c.Bytes == 1024 && c.Messages == 1 }},
	} {
		r := newResponder(9)
		a := c.do(r)
		if !a.send || a.syndrome != c.want || !c.ok(r.count) {
			t.Errorf("%s: %+v, %+v", c.name, a, r.count)
		}
	}
}

func TestOneNAKPerGap(t *testing.T) {
	s := newSender(9, 256, 2560, 16, 16, time.Second)
	r := newResponder(9)
	at := func(i uint64) reply { return r.handle(asRequest(s, s.segment(i))) }
	at(0)
	if a := at(2); !a.send || a.psn != firstPSN(9).Add(1) {
		t.Errorf("first packet beyond the gap: %+v, want a NAK with the PSN expected", a)
	}
	if a := at(3); a.send {
		t.Errorf("second packet beyond the gap was answered: %+v", a)
	}
	at(1)
	if a := at(5); !a.send {
		t.Error("a new gap was not answered")
	}
}

func TestPSNsWrap(t *testing.T) {
	s := newSender(9, 256, 256, 1<<10, 1, time.Second)
	now := time.Unix(0, 0)
	for s.una < 1<<24+1<<12 {
		first := s.next
		for range 1 << 10 {
			s.take(now)
		}
		if s.next != first+1<<10 {
			t.Fatalf("at packet %d the window did not open", first)
		}
		s.ack(s.segment(s.next-1).psn, now.Add(time.Millisecond))
	}
	if s.retransmits != 0 || s.srtt != time.Millisecond {
		t.Errorf("%d retransmits, srtt %v", s.retransmits, s.srtt)
	}
}

func TestKarnAndBackoff(t *testing.T) {
	s := newSender(9, 256, 256, 4, 1, 10*time.Millisecond)
	t0 := time.Unix(0, 0)
	s.take(t0)
	if s.expire(t0.Add(9 * time.Millisecond)) {
		t.Error("timeout before the RTO")
	}
	if !s.expire(t0.Add(10 * time.Millisecond)) {
		t.Fatal("no timeout after the RTO")
	}
	s.take(t0.Add(10 * time.Millisecond))
	if got := s.deadline(); !got.Equal(t0.Add(30 * time.Millisecond)) {
		t.Errorf("second timeout at %v, want the RTO doubled", got.Sub(t0))
	}
	if _, measured := s.ack(firstPSN(9), t0.Add(15*time.Millisecond)); measured {
		t.Error("a packet sent twice gave a round-trip time")
	}
	if s.retransmits != 1 || s.timeouts != 1 || s.una != 1 {
		t.Errorf("%+v", s)
	}
}
