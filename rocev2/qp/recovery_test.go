// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
)

// Silence: the oldest packet is sent once more after two round trips, then ever
// more seldom; that is no retry. After the timeout all is sent again, one packet first.
func TestSilence(t *testing.T) {
	x := newSource(t, RC)
	x.post(OpWrite, 1, 0)
	x.wantSent("0A")
	x.now += 1_000_000
	x.ack(0) // a round trip of 1 ms; expected within 2 of it and 4 deviations
	for range 4 {
		x.post(OpWrite, 1, 0)
	}
	x.wantSent("1A 2A 3A 4A")
	start := x.now
	for _, at := range []Time{4, 12, 28, 60} { // ms
		x.expire()
		if got := x.now - start; got != at*1e6 {
			t.Fatalf("probe after %d ns, want %d ms", got, at)
		}
		x.wantSent("1A!")
	}
	x.expire()
	if got := x.now - start; got != ackTimeout(14) {
		t.Fatalf("timeout after %d ns, want %d", got, ackTimeout(14))
	}
	x.wantSent("1A!")
	if x.count.Timeouts != 1 || x.count.TailProbes != 4 {
		t.Errorf("counters %+v", x.count)
	}
	x.now += 1e6
	x.ack(1) // as if all were lost
	x.wantSent("2A! 3A!")
	x.ack(2)
	x.ack(3)
	x.wantSent("4A!")
	x.ack(4)
	x.wantDone(0, Success, Success, Success, Success, Success)
	if x.q.Deadline() != 0 {
		t.Error("a deadline with nothing outstanding")
	}
}

// A probe is answered by the state of the peer: with all that was sent, and nothing
// is sent again; or with just the probe, then what is behind it is sent again
// until an answer shows that it was only late.
func TestProbeAnswers(t *testing.T) {
	silent := func() *source {
		x := newSource(t, RC)
		x.post(OpWrite, 1, 0)
		x.wantSent("0A")
		x.now += 100_000
		x.ack(0)
		for range 8 {
			x.post(OpWrite, 1, 0)
		}
		x.wantSent("1A 2A 3A 4A 5A 6A 7A 8A")
		x.expire()
		x.wantSent("1A!")
		x.now += 100_000
		return x
	}
	x := silent()
	x.ack(8) // the ACK was lost
	x.wantSent("")

	x = silent()
	x.ack(1)
	x.wantSent("2A!")
	x.ack(5) // late
	x.wantSent("")
	x.post(OpWrite, 1, 0)
	x.wantSent("9A") // and the window is as it was
	x.ack(9)

	x = silent()
	x.nak(3, rocev2.NAKPSNSequence)
	x.wantSent("3A! 4A! 5A! 6A!")
}

// A peer that disappears is given up within RetryBound, whatever was outstanding.
func TestRetryExceeded(t *testing.T) {
	for _, op := range []Operation{OpWrite, OpRead, OpFetchAdd} {
		for retry := uint8(0); retry <= 7; retry++ {
			x := newSource(t, RC, func(_ *Config, a *Attr) { a.RetryCnt = retry })
			x.post(op, 8, 0)
			x.post(OpWrite, 1, 0)
			start := x.now
			for packets := 0; x.q.State() == RTS; {
				packets += len(x.sends(100))
				if packets > 30+10*int(retry) {
					t.Fatalf("%d packets to a peer that is silent", packets)
				}
				x.expire()
			}
			x.wantDone(0, RetryExceeded, WRFlushed)
			if got, bound := x.now-start, RetryBound(14, retry); got != bound || x.count.RetryExceeded != 1 {
				t.Errorf("operation %d, RetryCnt %d: given up after %d ns, bound %d", op, retry, got, bound)
			}
		}
	}
	// Timeout 0 never gives up (IBTA 9.7.6).
	x := newSource(t, RC, func(_ *Config, a *Attr) { a.Timeout = 0 })
	x.post(OpWrite, 1, 0)
	for range 100 {
		x.sends(10)
		x.expire()
	}
	x.wantState(RTS)
	if x.now < 100e9 {
		t.Errorf("100 probes in %d s", x.now/1e9)
	}
	if RetryBound(0, 7) != 0 {
		t.Error("a bound for ever")
	}
	// 4.096 us * 2^14, once, twice, and four times for each further retry.
	if got := RetryBound(14, 3); got != 67_108_864*(1+2+4+4) {
		t.Errorf("RetryBound(14, 3) = %d", got)
	}
}

// A peer that starts anew with other PSNs answers with NAKs of what was never sent: it is
// given up as if it were silent.
func TestPeerRestarts(t *testing.T) {
	x := newSource(t, RC)
	x.post(OpWrite, 1, 0)
	start := x.now
	for x.q.State() == RTS {
		if len(x.sends(10)) != 0 {
			x.nak(0x345678, rocev2.NAKPSNSequence)
		}
		x.expire()
	}
	x.wantDone(0, RetryExceeded)
	if x.now-start > RetryBound(14, 3) {
		t.Error("later than the bound")
	}
}

// A READ of which the rest does not come is asked for from where it broke off.
func TestReadBreaksOff(t *testing.T) {
	x := newSource(t, RC)
	x.post(OpRead, 6*256, 0)
	x.wantSent("0A")
	x.now += 100_000
	x.response(0, 0, 3, 6*256)
	x.expire()
	x.wantAsked(asked{Op: rocev2.RCReadRequest, PSN: psn(3), Ack: true, Again: true, VA: 0x8000 + 3*256, Len: 256})
	x.in(rocev2.Datagram{Opcode: rocev2.RCReadResponseLast, PSN: psn(3), Syndrome: noCredits, Payload: pattern(9, 6*256)[3*256 : 4*256]})
	x.wantAsked(asked{Op: rocev2.RCReadRequest, PSN: psn(4), Ack: true, Again: true, VA: 0x8000 + 4*256, Len: 2 * 256})
	x.response(0, 4, 6, 6*256)
	x.wantDone(0, Success)
}

// A peer that answers a READ slowly but steadily is asked again once, not for
// every packet.
func TestSlowRead(t *testing.T) {
	x := newSource(t, RC)
	x.post(OpRead, 20*256, 0)
	x.wantSent("0A")
	x.now += 50_000
	again := 0
	for i := range 20 {
		x.response(0, i, i+1, 20*256)
		for next := x.now + 2_000_000; x.now < next; {
			if d := x.q.Deadline(); d == 0 || d > next {
				x.now = next
				break
			}
			x.expire()
			again += len(x.sends(10))
		}
	}
	x.wantDone(0, Success)
	if again > 3 {
		t.Errorf("asked %d times again", again)
	}
}

// PSNs mean the packet nearest to what was acknowledged, far from 0 too.
func TestPacketNumbers(t *testing.T) {
	x := newSource(t, RC)
	r := &x.q.req
	for _, taken := range []uint64{0, 1, 1 << 23, 1<<24 - 1, 1 << 24, 1<<24 + 1, 5<<24 + 12345} {
		r.taken = taken
		for _, d := range []int64{0, 1, -1, 100, -100, 1<<23 - 1, -1 << 23} {
			n := int64(taken) + d
			if got := r.number(r.psn(uint64(n))); got != n {
				t.Errorf("around %d: packet %d is taken for %d", taken, n, got)
			}
		}
	}
}

// Only what a SACK shows as missing is sent again, once, and then again when
// packets that left after it have arrived.
func TestSelective(t *testing.T) {
	x := newSource(t, RC, selective)
	for range 12 {
		x.post(OpWrite, 1, 0)
	}
	x.wantSent("0A 1A 2A 3A 4A 5A 6A 7A 8A 9A 10A 11A")
	x.sack(1, 3) // 2 may only be late
	x.wantSent("")
	x.sack(1, 3, 4, 5)
	x.wantSent("2A!")
	x.sack(1, 3, 4, 5, 7, 8, 9)
	x.wantSent("6A!")
	x.wantDone(0, Success, Success)
	x.post(OpWrite, 1, 0)
	x.post(OpWrite, 1, 0)
	x.post(OpWrite, 1, 0)
	x.wantSent("12A 13A 14A")
	x.sack(1, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13) // 11 is overtaken by two, 2 by 6, 12, 13
	x.wantSent("2A!")
	x.sack(1, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14) // nothing more can tell of 11
	x.wantSent("11A!")
	x.sack(1, 3)        // old
	x.sack(13, 14, 100) // of what was never sent, too
	x.wantSent("")
	x.ack(14)
	if got := len(x.cq.take()); got != 13 {
		t.Errorf("%d completions, want 13", got)
	}
	if x.count.SentAgain != 4 {
		t.Errorf("%d packets sent again, want 4", x.count.SentAgain)
	}
}

// The PSNs inside a READ are no packets: they are not sent again.
func TestSelectiveRead(t *testing.T) {
	x := newSource(t, RC, selective)
	x.post(OpWrite, 1, 0)
	x.post(OpRead, 5*256, 0)
	for range 4 {
		x.post(OpWrite, 1, 0)
	}
	x.wantSent("0A 1A 6A 7A 8A 9A")
	x.sack(0, 6, 7, 8, 9)
	x.wantSent("1A!")
	x.response(1, 0, 5, 5*256)
	x.ack(9)
	x.wantDone(0, Success, Success, Success, Success, Success, Success)
}

// With a hole no more leaves than the peer keeps, and what it has dropped comes again.
func TestSelectiveReach(t *testing.T) {
	x := newSource(t, RC, selective)
	x.q.req.window.size = widest
	x.post(OpWrite, 200*256, 0)
	if got := len(x.sends(1000)); got != 200 {
		t.Fatalf("%d packets", got)
	}
	var there []int
	for i := 1; i < 128; i++ {
		there = append(there, i)
	}
	x.sack(-1, there...)
	x.wantSent("0A!")
	x.ack(127)
	if got := x.sends(1000); len(got) != 72 || got[0].PSN != psn(128) {
		t.Errorf("%d packets follow", len(got))
	}
}

func TestBitmap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 1000 {
		var b bitmap
		var model [256]bool
		for range r.IntN(40) {
			i := r.IntN(128)
			b.set(i)
			model[i] = true
		}
		n := r.IntN(140)
		down, low := b.shift(uint64(n)), b.below(n)
		first, top := 128, 0
		for i := range 128 {
			if b.has(i) != model[i] || down.has(i) != (i+n < 128 && model[i+n]) || low.has(i) != (i < n && model[i]) {
				t.Fatalf("%x: bit %d with n %d", b, i, n)
			}
			if model[i] {
				first, top = min(first, i), i+1
			}
		}
		if b.first() != first || b.len() != top {
			t.Fatalf("%x: first %d, len %d", b, b.first(), b.len())
		}
	}
}

// The window halves with a loss, opens by one a round trip, and twice as wide
// after a calm.
func TestWindow(t *testing.T) {
	var w window
	w.start()
	w.acked(1000)
	if w.size != widest || w.ackEvery() != 64 {
		t.Errorf("limited to %d before any loss", w.size)
	}
	w.lost(100, minWindow)
	if w.size != 50 {
		t.Errorf("half of 100 is %d", w.size)
	}
	w.acked(50)
	w.acked(25)
	w.acked(26)
	if w.size != 52 {
		t.Errorf("after two round trips: %d, want 52", w.size)
	}
	w.lost(1, minWindow)
	if w.size != minWindow {
		t.Errorf("least is %d", w.size)
	}
	for range calmPackets {
		w.acked(1)
	}
	calm := w.size
	w.acked(calm)
	if w.size != 2*calm {
		t.Errorf("%d grows to %d after a calm", calm, w.size)
	}
	w.silent(100)
	w.acked(1)
	w.acked(2)
	if w.size != 4 || w.below != 50 {
		t.Errorf("after silence: %d below %d", w.size, w.below)
	}
	w.falseAlarm()
	if w.size != 2*calm {
		t.Errorf("after a false alarm: %d, want %d", w.size, 2*calm)
	}
}

// An idle queue pair is small, and a long ring is given back.
func TestIdleSize(t *testing.T) {
	if n := reflect.TypeFor[QP]().Size(); n > 2048 {
		t.Errorf("an idle queue pair has %d bytes, want 2048 at most", n)
	}
	t.Logf("a queue pair has %d bytes, a work request %d", reflect.TypeFor[QP]().Size(), reflect.TypeFor[wqe]().Size())
	x := newSource(t, RC)
	for i := range 100 {
		x.post(OpWrite, 1, 0)
		x.sends(1)
		if i%3 == 0 { // indices wrap in the ring while it grows
			x.ack(i / 2)
		}
	}
	x.ack(99)
	if got := len(x.cq.take()); got != 100 {
		t.Fatalf("%d completions", got)
	}
	if len(x.q.req.ring) <= ringMin {
		t.Fatal("the ring did not grow")
	}
	x.expire()
	if x.q.req.ring != nil || x.q.Deadline() != 0 {
		t.Error("the ring was not given back")
	}
	x.post(OpWrite, 1, 0)
	x.wantSent("100A")
}

// What is sent again into silence, or because the peer was not ready, is no sign of a
// congested path: one dead peer must not have congestion control starve the queue
// pairs beside it. What a NAK asks for is, and so is the rest of a window once the
// peer is heard again.
func TestLost(t *testing.T) {
	lost := func(x *source, want string) {
		t.Helper()
		got := ""
		for x.q.NextData(x.now, &x.out) {
			switch {
			case x.out.Lost && !x.out.Again:
				t.Error("a packet is sent for the first time and lost")
			case x.out.Lost:
				got += "L"
			case x.out.Again:
				got += "a"
			default:
				got += "."
			}
		}
		if got != want {
			t.Errorf("sent %q, want %q", got, want)
		}
	}
	silent := newSource(t, RC)
	silent.post(OpWrite, 4*256, 0)
	lost(silent, "....")
	for silent.count.Timeouts < 3 {
		silent.expire()
		lost(silent, "a")
	}
	silent.ack(0)
	lost(silent, "LL")

	told := newSource(t, RC)
	told.post(OpWrite, 4*256, 0)
	lost(told, "....")
	told.nak(1, rocev2.NAKPSNSequence)
	lost(told, "LLL")

	unready := newSource(t, RC)
	unready.post(OpSend, 4*256, 0)
	lost(unready, "....")
	unready.rnr(0, 1)
	unready.expire()
	lost(unready, "aaaa")
	unready.nak(2, rocev2.NAKPSNSequence)
	lost(unready, "LL")
}

// A responder that was not scheduled in the middle of a READ goes on where it was: a
// probe meanwhile is no reason to have anything sent twice, or to take it for lost.
func TestStalledRead(t *testing.T) {
	for _, sel := range []bool{false, true} {
		for _, sent := range []int{0, 1, 100, 511} {
			p := newPair(t, RC, func(_ *Config, a *Attr) { a.Selective = sel })
			p.post(&SendWR{Op: OpWrite, RemoteAddr: dataBase, RKey: dataKey, SGL: []SGE{{Addr: dataBase, Len: 1, LKey: dataKey}}})
			p.run(func() bool { return p.side[0].q.req.clock.rtt.smoothed != 0 })
			const n = 512
			p.post(&SendWR{Op: OpRead, Flags: Signaled, RemoteAddr: dataBase, RKey: dataKey,
				SGL: []SGE{{Addr: dataBase, Len: n * 256, LKey: dataKey}}})
			s := p.side[1]
			p.run(func() bool { return s.data >= sent && s.q.rsp.res.busy() })
			s.free = p.now + 2e6
			p.run(func() bool { return len(p.side[0].cq.got) == 1 })
			if probes := p.side[0].count.TailProbes; probes == 0 {
				t.Errorf("selective %v, stalled after %d: no probe, the test shows nothing", sel, sent)
			}
			if s.data != n || s.count.SentAgain != 0 {
				t.Errorf("selective %v, stalled after %d: %d responses sent for %d, %d of them counted as sent again", sel, sent, s.data, n, s.count.SentAgain)
			}
		}
	}
}

// Between two engines a READ that is asked for again because its answer is slow costs
// one packet, not all of the answer once more; what really is lost still comes.
func TestLateRead(t *testing.T) {
	const n = 512
	for _, lost := range []int{0, 1, 200, n} {
		p := newPair(t, RC, selective)
		p.post(&SendWR{Op: OpWrite, RemoteAddr: dataBase, RKey: dataKey, SGL: []SGE{{Addr: dataBase, Len: 1, LKey: dataKey}}})
		p.run(func() bool { return p.side[0].q.req.clock.rtt.smoothed != 0 })
		responses := 0
		p.drop = func(from int, _ *rocev2.Packet) bool {
			if from == 1 {
				responses++
			}
			return from == 1 && responses <= lost
		}
		p.late[0] = p.now + 2e6
		p.post(&SendWR{Op: OpRead, Flags: Signaled, RemoteAddr: dataBase, RKey: dataKey,
			SGL: []SGE{{Addr: dataBase, Len: n * 256, LKey: dataKey}}})
		p.run(func() bool { return len(p.side[0].cq.got) == 1 })
		p.run(func() bool { return len(p.flight) == 0 })
		if probes := p.side[0].count.TailProbes; probes == 0 {
			t.Errorf("%d lost: no probe, the test shows nothing", lost)
		}
		if got := p.side[1].data; got > n+lost+100 {
			t.Errorf("%d lost: %d responses sent for %d", lost, got, n)
		}
	}
}
