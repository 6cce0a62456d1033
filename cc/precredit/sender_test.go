// SPDX-License-Identifier: Apache-2.0

package precredit

import "testing"

const testRTT = 10 * us

// testSender has the bandwidth-delay product of 10 Gbit/s and 10 us, 12 500 bytes, and a grant.
func testSender(bound Bound, limit uint32) *Sender {
	const link = 10_000_000_000
	s := NewSender(SenderParams{LinkBps: link, RTTNs: testRTT, BDPBytes: BDP(link, testRTT), MaxWaitNs: ms, SmallBias: DefaultSmallBias, AgingStep: DefaultAgingStep, Bound: bound})
	s.Grant(0, Grant{Epoch: 1, Open: true, Seq: 1, Limit: limit, LifeNs: 100 * ms})
	return s
}

// post begins a flow of n bytes.
func (s *Sender) post(now int64, n uint64, idle bool) *Flow {
	f := &Flow{Packet: 1000}
	s.Post(now, f, Work{First: true, Idle: idle, Bytes: n, Features: Features{TotalBytes: n, PostedBytes: n, RegionBytes: n}})
	return f
}

// send sends all that may leave on pre-credit, and returns how many bytes.
func (s *Sender) send(now int64, n uint32) (sent uint32) {
	for f := s.Next(now, 0); f != nil; f = s.Next(now, 0) {
		c, ok := s.Sent(now, f, n, true, false)
		if !ok {
			break
		}
		sent += n
		if c.Bytes != s.src.sent {
			panic("the stamp does not name what was sent")
		}
	}
	return sent
}

// A flow sends whole packets of up to a bandwidth-delay product on pre-credit, and nothing
// after its first ACK.
func TestSenderFlow(t *testing.T) {
	s := testSender(BoundLarge, 50_000)
	f := s.post(0, 1<<20, true)
	if f.Class() != Large || s.send(0, 1000) != 13_000 {
		t.Errorf("%v flow: %d bytes on pre-credit, want the 13 packets that hold 12 500", f.Class(), s.src.sent)
	}
	s.Answer(testRTT, f, Answer{RTTNs: testRTT, InFlight: 13_000, Acked: 1000})
	s.Post(testRTT, f, Work{Bytes: 5000, Features: Features{TotalBytes: 5000, PostedBytes: 5000}})
	if n := s.send(testRTT, 1000); n != 0 {
		t.Errorf("%d bytes on pre-credit after the first ACK", n)
	}
	if may, _ := s.MayStart(testRTT, f, true); !may {
		t.Error("blocked after the first ACK")
	}
}

// A retransmission is part of what a flow has sent already.
func TestSenderRetransmission(t *testing.T) {
	s := testSender(BoundLarge, 0) // no credit yet
	f := s.post(0, 3000, true)
	s.Sent(0, f, 1000, false, false)
	s.Sent(0, f, 1000, false, true)
	if f.left != 2000 {
		t.Errorf("%d bytes may still be sent on pre-credit, want 2000", f.left)
	}
}

// Messages that are posted one after the other are one flow: sizes add up, and so do
// packets. The last packet may be longer than what is left, if there is credit for it.
func TestSenderSeveralWorks(t *testing.T) {
	s := testSender(BoundLarge, 13_400)
	f := s.post(0, 700, true)
	if f.Class() != Small {
		t.Fatal(f.Class())
	}
	for range 40 {
		s.Post(0, f, Work{Bytes: 700, Features: Features{TotalBytes: 700, PostedBytes: 700, RegionBytes: 700}})
	}
	if f.Class() != Large {
		t.Errorf("a flow of 41 works of 700 bytes is %v", f.Class())
	}
	if sent := s.send(0, 700); sent > 13_400 || sent < 12_400 {
		t.Errorf("%d bytes on a credit of 13 400", sent)
	}
}

// Retransmissions are never on pre-credit, packets that leave by the rate take none, and
// neither does a packet of no flow.
func TestSenderUncredited(t *testing.T) {
	s := testSender(BoundLarge, 50_000)
	f := s.post(0, 5000, true)
	s.Sent(0, f, 1000, false, false)
	if f.Left() != 4000 || s.src.sent != 0 {
		t.Errorf("%d bytes wait after 1000 of 5000 have left by the rate", f.Left())
	}
	if _, ok := s.Sent(0, f, 1000, true, true); ok || s.Next(0, 0) != nil {
		t.Error("a packet was sent again on pre-credit")
	}
	if _, ok := s.Sent(0, new(Flow), 1000, true, false); ok || s.src.sent != 0 {
		t.Error("a packet without a flow was credited")
	}
}

// Pre-credit waits when a bandwidth-delay product has left ahead of the rate.
func TestSenderKeepsTheRate(t *testing.T) {
	s := testSender(BoundLarge, 50_000)
	f := s.post(0, 5000, true)
	if s.Next(0, 12_501) != nil || s.Next(0, 12_500) != f {
		t.Error("want none at more than 12 500 bytes ahead of the rate")
	}
}

// In the first flight the classes that are bound wait for feedback, unless nothing
// is in flight. Afterwards the window grows from what was in flight.
func TestSenderFirstFlight(t *testing.T) {
	for _, c := range []struct {
		bound        Bound
		small, large bool
	}{{BoundLarge, true, false}, {BoundAll, false, false}, {BoundNone, true, true}} {
		s := testSender(c.bound, 0)
		small, large := s.post(0, 1000, true), s.post(0, 1<<20, false)
		a, _ := s.MayStart(0, small, true)
		b, _ := s.MayStart(0, large, true)
		if a != c.small || b != c.large {
			t.Errorf("bound %d: small may start: %v, large: %v", c.bound, a, b)
		}
		waits := uint64(0)
		for _, may := range []bool{a, b} {
			if !may {
				waits++
			}
		}
		if s.Stats().Waits != waits {
			t.Errorf("bound %d: %d waits, want %d", c.bound, s.Stats().Waits, waits)
		}
		if may, ask := s.MayStart(0, large, false); !may || ask != !c.large {
			t.Errorf("bound %d: nothing in flight: %v, ask for an ACK: %v", c.bound, may, ask)
		}
		s.Answer(testRTT, small, Answer{RTTNs: testRTT, InFlight: 4000, Acked: 1000})
		w, on := s.Window()
		if on != (waits > 0) || on && w != 5000 {
			t.Errorf("bound %d: window %d, %v", c.bound, w, on)
		}
		if n := len(s.Released()); n != int(waits) || len(s.Released()) != 0 {
			t.Errorf("bound %d: %d flows released, %d had to wait", c.bound, n, waits)
		}
		if may, _ := s.MayStart(testRTT, large, true); !may {
			t.Errorf("bound %d: blocked after the first flight", c.bound)
		}
	}
}

// An ACK without an RTT does not end the ramp: the window at which the rate takes over is that
// of the RTT planned with.
func TestSenderRampWithoutRTT(t *testing.T) {
	s := testSender(BoundLarge, 0)
	large := s.post(0, 1<<20, true)
	if may, _ := s.MayStart(0, large, true); may {
		t.Fatal("not blocked, so that there is no ramp")
	}
	s.Answer(testRTT, large, Answer{InFlight: 2000, Acked: 500, RateBps: 10_000_000_000})
	if w, on := s.Window(); !on || w != 2500 {
		t.Errorf("window %d, %v; want 2500", w, on)
	}
}

// A first flight also ends by a timeout, which voids pre-credit if an ACK is missing, and after
// the longest wait.
func TestSenderFirstFlightEnds(t *testing.T) {
	begin := func() (*Sender, *Flow) {
		s := testSender(BoundLarge, 900)
		f := s.post(0, 1<<20, true)
		if may, _ := s.MayStart(us, f, true); may {
			t.Fatal("not blocked")
		}
		return s, f
	}
	s, _ := begin()
	if m, send := s.Timeout(true, 700); !send || m.Void != 900 || !m.Expired {
		t.Errorf("timeout of an ACK: %+v, %v", m, send)
	}
	if w, on := s.Window(); !on || w != 700 || len(s.Released()) != 1 {
		t.Errorf("window %d, %v", w, on)
	}
	s, _ = begin()
	if _, send := s.Timeout(false, 700); send || s.src.Usable(5*us) != 900 || len(s.Released()) != 1 {
		t.Error("another timer voids pre-credit, or does not end the first flight")
	}
	s, f := begin()
	if at := s.Deadline(); at != us+ms {
		t.Errorf("deadline %d, want %d", at, us+ms)
	}
	if s.Expire(us+ms-1, 700); len(s.Released()) != 0 {
		t.Error("released too early")
	}
	if s.Expire(us+ms, 700); len(s.Released()) != 1 || f.waiting {
		t.Error("not released after the longest wait")
	}
	if at := s.Deadline(); at != 100*ms {
		t.Errorf("deadline %d, want the end of the account's life", at)
	}
	if m, send := s.Expire(100*ms, 0); !send || m.Void != 900 {
		t.Errorf("expired: %+v, %v", m, send)
	}
	s, f = begin()
	if s.End(f); f.waiting || len(s.waiting)+len(s.Released()) != 0 {
		t.Error("a flow that has ended waits")
	}
	s, _ = begin()
	if m, send := s.Stop(); !send || m.Void != 900 || len(s.Released()) != 1 || s.firstFlight {
		t.Errorf("stopped: %+v, %v", m, send)
	}
}

// Losses are reported at most once in a millisecond, and a flow that finds no pre-credit at once.
func TestSenderReports(t *testing.T) {
	s := testSender(BoundLarge, 0)
	for _, c := range []struct {
		now  int64
		want bool
	}{{0, true}, {1, false}, {ms - 1, false}, {ms, true}, {ms + us, false}} {
		if _, send := s.Loss(c.now); send != c.want {
			t.Errorf("loss at %d: reported %v", c.now, send)
		}
	}
	f := &Flow{Packet: 1000}
	if _, send := s.Post(0, f, Work{First: true, Bytes: 1}); !send {
		t.Error("a flow without pre-credit is not reported")
	}
	if _, send := s.Post(0, f, Work{Bytes: 1}); send {
		t.Error("reported twice")
	}
	if _, send := testSender(BoundLarge, 1000).Post(0, f, Work{First: true, Bytes: 1}); send {
		t.Error("reported although there is some")
	}
}

// An ACK is requested by the first packet and by the last one that credit is there for.
func TestSenderWantsAck(t *testing.T) {
	s := testSender(BoundLarge, 3000)
	s.post(0, 10_000, true)
	var asked []bool
	for f := s.Next(0, 0); f != nil; f = s.Next(0, 0) {
		asked = append(asked, s.WantsAck(0, f))
		s.Sent(0, f, 1000, true, false)
	}
	if len(asked) != 3 || !asked[0] || asked[1] || !asked[2] {
		t.Errorf("%v", asked)
	}
}

// A round is an RTT: the one planned with until there is a measured one.
func TestSenderRounds(t *testing.T) {
	s := testSender(BoundLarge, 0)
	f := s.post(0, 1000, true)
	rounds := func(now int64, rtt int64) uint64 {
		before := s.src.Queue.round
		s.Answer(now, f, Answer{RTTNs: rtt})
		return s.src.Queue.round - before
	}
	for _, c := range []struct {
		now, rtt int64
		want     uint64
	}{{testRTT - 1, 0, 0}, {testRTT, 0, 1}, {2*testRTT - 1, 0, 0}, {2 * testRTT, 3 * testRTT, 0}, {4 * testRTT, 0, 1}} {
		if got := rounds(c.now, c.rtt); got != c.want {
			t.Errorf("at %d: %d rounds, want %d", c.now, got, c.want)
		}
	}
}

// A round hands out the part of the pre-credit that the gradient allows, however many works
// are posted in it, and the next round begins after one RTT.
func TestSenderPostsShareARound(t *testing.T) {
	s := testSender(BoundNone, 64_000)
	rtt := testRTT
	for range 40 { // RTTs grow: the part shrinks to its least
		rtt += testRTT
		s.src.SrcFixPrecredit(rtt)
	}
	part := uint32(64_000 * uint64(s.src.Part()) >> 10)
	if part > 32_000 {
		t.Fatalf("the gradient lets %d of 64 000 bytes be handed out", part)
	}
	burst := func(now int64) (sent uint32) {
		for i := range 60 {
			s.post(now, 1000, i == 0)
			sent += s.send(now, 1000)
		}
		return sent
	}
	if sent := burst(testRTT); sent > part || sent+1000 <= part {
		t.Errorf("60 works of one round took %d bytes, want the %d that the gradient allows", sent, part)
	}
	if sent := burst(2 * testRTT); sent == 0 {
		t.Error("the next round hands out nothing")
	}
}

// Pre-credit that comes within a round adds its part to what the round hands out.
func TestSenderCreditWithinARound(t *testing.T) {
	s := testSender(BoundNone, 2000)
	f := s.post(0, 12_000, true)
	if sent := s.send(0, 1000); sent != 2000 {
		t.Fatalf("%d bytes on a credit of 2000", sent)
	}
	other := s.post(0, 9000, false)
	s.Answer(1, f, Answer{Credit: Credit{Bytes: 6000, Seq: 1}, HasCredit: true, RTTNs: testRTT, InFlight: 2000, Acked: 1000})
	if sent := s.send(1, 1000); sent != 4000 || other.Left() != 5000 {
		t.Errorf("%d bytes on the 4000 that an ACK brought", sent)
	}
	s.Grant(2, Grant{Epoch: 1, Seq: 2, Limit: 9000, LifeNs: 100 * ms})
	if sent := s.send(2, 1000); sent != 3000 {
		t.Errorf("%d bytes on the 3000 that a grant brought", sent)
	}
}
