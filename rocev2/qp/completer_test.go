// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"bytes"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
)

// One ACK for many messages; ACKs of nothing new or of nothing that was sent.
func TestCoalescedAndGhostAcks(t *testing.T) {
	x := newSource(t, RC)
	for range 4 {
		x.post(OpWrite, 300, 0)
	}
	x.wantSent("0 1A 2 3A 4 5A 6 7A")
	x.ack(4)
	x.wantDone(0, Success, Success)
	x.ack(3)
	x.ack(-1)
	x.ack(-500)
	x.ack(8)
	x.ack(1 << 22)
	x.wantDone(2)
	if x.count.StaleAnswer != 5 {
		t.Errorf("%d stale answers, want 5", x.count.StaleAnswer)
	}
	x.aeth(7, 0x40, 0) // reserved type
	x.wantDone(2)
	x.aeth(7, 0x17, 5) // an ACK with credits: the low bits are not judged
	x.wantDone(2, Success, Success)
	x.ack(7)
	x.response(7, 0, 1, 1)
	x.atomic(7, 1)
	if x.count.StaleAnswer != 7 { // the last ACK once more may bring credits
		t.Errorf("%d stale answers, want 7", x.count.StaleAnswer)
	}
	x.wantState(RTS)
}

// NAKs that end the connection: those before it succeed, those behind are flushed.
func TestFatalNaks(t *testing.T) {
	for _, c := range []struct {
		code rocev2.NAKCode
		want Status
		n    *uint64
	}{
		{rocev2.NAKInvalidRequest, RemoteInvalidRequest, nil},
		{rocev2.NAKRemoteAccess, RemoteAccess, nil},
		{rocev2.NAKRemoteOp, RemoteOperation, nil},
		{9, BadResponse, nil}, // reserved
	} {
		x := newSource(t, RC)
		for range 4 {
			x.post(OpWrite, 300, 0)
		}
		x.wantSent("0 1A 2 3A 4 5A 6 7A")
		x.nak(4, c.code)
		x.wantDone(0, Success, Success, c.want, WRFlushed)
		x.wantState(Err)
		if got := x.count.NakAccess + x.count.NakInvalid + x.count.NakOperation; (got == 1) != (c.want != BadResponse) {
			t.Errorf("%s: counters %+v", c.want, x.count)
		}
	}
	// A READ that is refused when it is repeated, although all before was acknowledged.
	x := newSource(t, RC)
	x.post(OpRead, 600, 0)
	x.post(OpWrite, 1, 0)
	x.wantSent("0A 3A")
	x.response(0, 0, 1, 600)
	x.nak(1, rocev2.NAKRemoteAccess)
	x.wantDone(0, RemoteAccess, WRFlushed)
}

// A connection that ends on the requester's side owes the peer nothing any more: a
// READ that is being answered stops, and no ACK leaves.
func TestSilentInErr(t *testing.T) {
	for name, end := range map[string]func(*source){
		"NAK": func(x *source) { x.nak(0, rocev2.NAKRemoteAccess) },
		"retries": func(x *source) {
			x.q.attr.RetryCnt = 0
			for range 20 {
				if x.q.State() != Err {
					x.expire()
				}
			}
		},
		"answer": func(x *source) { x.ack(0); x.response(1, 0, 1, 5) },
	} {
		x := newSource(t, RC)
		for n, d := range []dg{read(dataBase, 600), write(wo, dataBase, 0, 0)} {
			d.PSN, d.AckReq = rocev2.PSN(3*n), true
			p := build(t, d)
			x.q.attr.Access = allRights
			x.q.Receive(x.now, &p)
		}
		x.post(OpWrite, 8, 0)
		x.post(OpRead, 600, 0)
		if got := x.sends(3); len(got) != 3 || !x.q.rsp.res.busy() {
			t.Fatalf("%s: %+v", name, got)
		}
		end(x)
		if x.q.State() != Err {
			t.Fatalf("%s: %s", name, x.q.State())
		}
		if got := x.sends(9); got != nil || x.q.NextAck(x.now, &x.out) {
			t.Errorf("%s: still leaves in ERR: %+v %s", name, got, x.out.Opcode)
		}
	}
}

// NAK PSN: all before it has arrived, all from it on is sent again, once per round trip.
func TestNakSequence(t *testing.T) {
	x := newSource(t, RC)
	for range 5 {
		x.post(OpWrite, 300, 0)
	}
	x.wantSent("0 1A 2 3A 4 5A 6 7A 8 9A")
	x.nak(3, rocev2.NAKPSNSequence)
	x.wantDone(0, Success)
	x.wantSent("3A! 4A! 5A! 6A!") // the window is half of what was on its way, and at least 4
	for range 10 {                // a storm
		x.nak(3, rocev2.NAKPSNSequence)
	}
	x.wantSent("")
	x.ack(4)
	x.wantSent("7A! 8A!")
	x.nak(2, rocev2.NAKPSNSequence)  // old
	x.nak(10, rocev2.NAKPSNSequence) // of what was never sent
	x.wantSent("")
	x.ack(9)
	x.wantDone(1, Success, Success, Success, Success)
	if x.count.SentAgain != 6 || x.count.Timeouts != 0 {
		t.Errorf("counters %+v", x.count)
	}
}

// The same NAK after a round trip is heeded: what was sent again is lost again.
func TestNakAgain(t *testing.T) {
	x := newSource(t, RC)
	for range 3 {
		x.post(OpWrite, 1, 0)
	}
	x.wantSent("0A 1A 2A")
	x.nak(0, rocev2.NAKPSNSequence)
	x.wantSent("0A! 1A! 2A!")
	x.now += minProbe - 1
	x.nak(0, rocev2.NAKPSNSequence)
	x.wantSent("")
	x.now++
	x.nak(0, rocev2.NAKPSNSequence)
	x.wantSent("0A! 1A! 2A!")
}

// READ responses go where their PSN says, in any order. Only what is missing is asked
// for again, by a READ of that part.
func TestReadHoles(t *testing.T) {
	x := newSource(t, RC)
	const n = 10*256 + 7
	x.post(OpRead, n, 0)
	x.wantAsked(asked{Op: rocev2.RCReadRequest, PSN: psn(0), Ack: true, VA: 0x8000, Len: n})
	x.response(0, 0, 2, n)
	x.response(0, 4, 5, n) // 2 and 3 are missing, or late
	x.wantAsked()
	x.response(0, 5, 6, n)
	x.response(0, 7, 8, n) // and 6
	x.wantAsked(asked{Op: rocev2.RCReadRequest, PSN: psn(2), Ack: true, Again: true, VA: 0x8000 + 2*256, Len: 2 * 256})
	x.response(0, 10, 11, n)
	x.wantAsked() // one hole at a time
	x.response(0, 2, 4, n)
	x.wantAsked(asked{Op: rocev2.RCReadRequest, PSN: psn(6), Ack: true, Again: true, VA: 0x8000 + 6*256, Len: 256})
	x.response(0, 2, 6, n) // duplicates
	x.response(0, 6, 7, n)
	x.wantAsked(asked{Op: rocev2.RCReadRequest, PSN: psn(8), Ack: true, Again: true, VA: 0x8000 + 8*256, Len: 2 * 256})
	x.wantDone(0)
	x.response(0, 8, 10, n)
	x.wantDone(0, Success)
	if !bytes.Equal(x.m.regions[dataKey].data[:n], pattern(9, n)) {
		t.Error("the data differs")
	}
	if x.m.regions[dataKey].data[n] != pattern(3, n+1)[n] {
		t.Error("written beyond the end")
	}
}

// Another engine of ours is asked for all holes at once.
func TestReadHolesSelective(t *testing.T) {
	x := newSource(t, RC, selective)
	x.post(OpRead, 10*256, 0)
	x.wantSent("0A")
	x.response(0, 0, 2, 2560)
	x.response(0, 3, 4, 2560)
	x.response(0, 6, 10, 2560)
	x.wantSent("2A! 4A!")
	x.response(0, 4, 6, 2560)
	x.wantSent("")
	x.now += 2*minProbe + 1
	x.q.Expire(x.now)
	x.wantSent("2A!")
	x.response(0, 2, 3, 2560)
	x.wantDone(0, Success)
}

// An answer beyond an unanswered READ or ATOMIC is a NAK of it (IBTA 9.7.6), and
// a READ response acknowledges what was before its request.
func TestImpliedNak(t *testing.T) {
	x := newSource(t, RC)
	x.post(OpWrite, 1, 0)
	x.post(OpRead, 600, 0)
	x.post(OpFetchAdd, 8, 0)
	x.post(OpWrite, 1, 0)
	x.wantSent("0A 1A 4A 5A")
	x.ack(5)
	x.wantDone(0, Success)
	x.wantSent("1A! 4A!")
	if x.count.ImpliedNak != 2 {
		t.Errorf("%d implied NAKs, want 2", x.count.ImpliedNak)
	}
	x.ack(5)
	x.wantSent("") // once per round trip
	x.response(1, 0, 3, 600)
	x.wantDone(1, Success)
	x.atomic(4, 1)
	x.wantDone(2, Success, Success)

	x = newSource(t, RC)
	x.post(OpWrite, 1, 0)
	x.post(OpRead, 1, 0)
	x.wantSent("0A 1A")
	x.response(1, 0, 1, 1)
	x.wantDone(0, Success, Success)
}

// Answers of another kind or length than what was asked for.
func TestBadResponses(t *testing.T) {
	resp := func(n int, op rocev2.Opcode, size int, s rocev2.Syndrome) rocev2.Datagram {
		return rocev2.Datagram{Opcode: op, PSN: psn(n), Syndrome: s, Payload: make([]byte, size)}
	}
	for _, c := range []struct {
		name string
		d    rocev2.Datagram
	}{
		{"short FIRST", resp(0, rocev2.RCReadResponseFirst, 255, noCredits)},
		{"long LAST", resp(2, rocev2.RCReadResponseLast, 89, noCredits)},
		{"empty LAST", resp(2, rocev2.RCReadResponseLast, 0, noCredits)},
		{"whole LAST", resp(2, rocev2.RCReadResponseLast, 256, noCredits)},
		{"NAK inside", resp(0, rocev2.RCReadResponseFirst, 256, rocev2.SyndromeNAK(rocev2.NAKRemoteAccess))},
		{"ATOMIC result", rocev2.Datagram{Opcode: rocev2.RCAtomicAck, PSN: psn(1), Syndrome: noCredits}},
		{"READ response to an ATOMIC", resp(3, rocev2.RCReadResponseOnly, 8, noCredits)},
		{"RNR inside a result", rocev2.Datagram{Opcode: rocev2.RCAtomicAck, PSN: psn(3), Syndrome: rocev2.SyndromeRNR(1)}},
	} {
		x := newSource(t, RC)
		x.post(OpRead, 600, 0)
		x.post(OpFetchAdd, 8, 0)
		x.wantSent("0A 3A")
		x.in(c.d)
		if c.d.PSN == psn(3) { // the READ before it ends first
			x.wantDone(0)
			x.response(0, 0, 3, 600)
			x.wantDone(0, Success, BadResponse)
		} else {
			x.wantDone(0, BadResponse, WRFlushed)
		}
		x.wantState(Err)
		if !bytes.Equal(x.m.regions[dataKey].data[600:], pattern(3, 1<<16)[600:]) {
			t.Errorf("%s: memory was touched", c.name)
		}
	}
}

// The requester's own memory does not take the answer.
func TestReadIntoBadMemory(t *testing.T) {
	x := newSource(t, RC)
	x.post(OpWrite, 1, 0)
	x.post(OpRead, 600, 0, func(wr *SendWR) { wr.SGL[0].LKey = 0xBAD })
	x.wantSent("0A 1A")
	x.response(1, 0, 1, 600)
	x.wantDone(0, Success, LocalProtection)
	x.wantState(Err)
}

// RNR NAK: wait as long as it says, send again from there; 0x60 for the same packet
// means the same (rxe); a limit, or 7 for ever (IBTA 9.7.5.2, table 45).
func TestNotReady(t *testing.T) {
	x := newSource(t, RC)
	for range 3 {
		x.post(OpSend, 1, 0)
	}
	x.wantSent("0A 1A 2A")
	x.rnr(1, 12) // 0.64 ms
	x.wantDone(0, Success)
	x.nak(1, rocev2.NAKPSNSequence)
	x.rnr(1, 12)
	x.wantSent("")
	if d := x.q.Deadline(); d != x.now+640_000 {
		t.Errorf("deadline in %d ns", d-x.now)
	}
	x.expire()
	x.wantSent("1A!")               // whether there is a receive; what is behind it waits
	x.nak(1, rocev2.NAKPSNSequence) // was on its way
	x.wantSent("")
	x.rnr(1, 1)
	x.expire()
	x.wantSent("1A!")
	x.ack(1)
	x.wantDone(1, Success)
	x.wantSent("2A!")
	for range 3 { // progress has reset the count; RNRRetry is 3
		x.rnr(2, 1)
		x.expire()
		x.wantSent("2A!")
	}
	x.rnr(2, 1)
	x.wantDone(2, RNRRetryExceeded)
	x.wantState(Err)
	if x.count.RNRReceived != 6 || x.count.RNRRetryExceeded != 1 {
		t.Errorf("counters %+v", x.count)
	}

	x = newSource(t, RC, func(_ *Config, a *Attr) { a.RNRRetry = 7 })
	x.post(OpSend, 1, 0)
	x.wantSent("0A")
	for range 100 {
		x.rnr(0, 0) // 655 ms: no timeout meanwhile
		x.expire()
		x.wantSent("0A!")
	}
	x.ack(0)
	x.wantDone(0, Success)
	if x.count.Timeouts != 0 {
		t.Errorf("%d timeouts while waiting", x.count.Timeouts)
	}
}

// End-to-end credits (IBTA 9.7.7.2): no limit before they are counted, then
// MSN plus credits, and beyond it one packet at a time.
func TestCredits(t *testing.T) {
	x := newSource(t, RC)
	x.post(OpSend, 1, 0)
	x.post(OpSend, 1, 0)
	x.wantSent("0A 1A")
	x.aeth(1, rocev2.SyndromeACK(1), 2) // one credit: message 3 may go
	x.post(OpSend, 300, 0)
	x.post(OpWrite, 1, 0)
	x.post(OpWriteImm, 300, 0)
	x.post(OpSend, 1, 0)
	x.wantSent("2 3A 4A 5 6A") // the WRITE needs no receive, the last packet of WRITE_IMM does: it is the one
	x.aeth(4, rocev2.SyndromeACK(0), 4)
	x.wantSent("")
	x.aeth(6, rocev2.SyndromeACK(0), 5)
	x.wantSent("7A") // one at a time
	x.aeth(7, noCredits, 6)
	x.post(OpSend, 1, 0)
	x.post(OpSend, 1, 0)
	x.wantSent("8A 9A") // not counted any more
	x.ack(9)
	x.wantDone(0, slices.Repeat([]Status{Success}, 8)...)
}

// Answers to what has no send queue of its kind, or in a state without answers.
func TestAnswersIgnored(t *testing.T) {
	x := newSource(t, UC)
	x.post(OpSend, 1, 0)
	x.wantSent("0")
	x.ack(0)
	y := newTarget(t, RC)
	y.in(rocev2.Datagram{Opcode: rocev2.RCAck, PSN: psn(0)})
	if x.count.Ignored != 1 || y.count.Ignored != 1 {
		t.Errorf("ignored %d and %d", x.count.Ignored, y.count.Ignored)
	}
}

// The peer learnt of our engine before we learnt of its: its SACK counts, since it will
// not send a NAK.
func TestSACKBeforeNegotiation(t *testing.T) {
	x := newSource(t, RC)
	for range 4 {
		x.post(OpWrite, 1, 0)
	}
	x.wantSent("0A 1A 2A 3A")
	x.sack(0, 2, 3)
	x.wantSent("1A!")
	x.ack(3)
	x.wantDone(0, slices.Repeat([]Status{Success}, 4)...)
	if x.count.StaleAnswer != 0 || x.count.SACKReceived != 1 {
		t.Errorf("%+v", x.count)
	}
}
