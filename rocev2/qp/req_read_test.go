// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"bytes"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// READ responses are stored by PSN, in any order. Only missing parts are requested again.
func TestReadGaps(t *testing.T) {
	x := newSource(t, verbs.RC)
	const n = 10*256 + 7
	x.post(verbs.OpRead, n, 0)
	x.wantAsked(asked{Op: rocev2.RCReadRequest, PSN: psn(0), Ack: true, VA: 0x8000, Len: n})
	x.response(0, 0, 2, n)
	x.response(0, 4, 5, n) // 2 and 3 are missing, or late
	x.wantAsked()
	x.response(0, 5, 6, n)
	x.response(0, 7, 8, n) // and 6
	x.wantAsked(asked{Op: rocev2.RCReadRequest, PSN: psn(2), Ack: true, Again: true, VA: 0x8000 + 2*256, Len: 2 * 256})
	x.response(0, 10, 11, n)
	x.wantAsked() // one gap at a time
	x.response(0, 2, 4, n)
	x.wantAsked(asked{Op: rocev2.RCReadRequest, PSN: psn(6), Ack: true, Again: true, VA: 0x8000 + 6*256, Len: 256})
	x.response(0, 2, 6, n) // duplicates
	x.response(0, 6, 7, n)
	x.wantAsked(asked{Op: rocev2.RCReadRequest, PSN: psn(8), Ack: true, Again: true, VA: 0x8000 + 8*256, Len: 2 * 256})
	x.wantDone(0)
	x.response(0, 8, 10, n)
	x.wantDone(0, verbs.StatusSuccess)
	if !bytes.Equal(x.m.regions[dataKey].data[:n], pattern(9, n)) {
		t.Error("the data differs")
	}
	if x.m.regions[dataKey].data[n] != pattern(3, n+1)[n] {
		t.Error("written beyond the end")
	}
}

// A softroce peer is asked for all gaps at once.
func TestReadGapsSelective(t *testing.T) {
	x := newSource(t, verbs.RC, selective)
	x.post(verbs.OpRead, 10*256, 0)
	x.wantSent("0A")
	x.response(0, 0, 2, 2560)
	x.response(0, 3, 4, 2560)
	x.response(0, 6, 10, 2560)
	x.wantSent("2A! 4A!")
	x.response(0, 4, 6, 2560)
	x.wantSent("")
	x.now += 2*minProbeTimeout + 1
	x.q.Expire(x.now)
	x.wantSent("2A!")
	x.response(0, 2, 3, 2560)
	x.wantDone(0, verbs.StatusSuccess)
}

// A response beyond a READ or ATOMIC without response is a NAK of it (IBTA 9.7.6), and a
// READ response acknowledges all packets before its request.
func TestImpliedNak(t *testing.T) {
	x := newSource(t, verbs.RC)
	x.post(verbs.OpWrite, 1, 0)
	x.post(verbs.OpRead, 600, 0)
	x.post(verbs.OpFetchAdd, 8, 0)
	x.post(verbs.OpWrite, 1, 0)
	x.wantSent("0A 1A 4A 5A")
	x.ack(5)
	x.wantDone(0, verbs.StatusSuccess)
	x.wantSent("1A! 4A!")
	if x.count.ImpliedNak != 2 {
		t.Errorf("%d implied NAKs, want 2", x.count.ImpliedNak)
	}
	x.ack(5)
	x.wantSent("") // once per round trip
	x.response(1, 0, 3, 600)
	x.wantDone(1, verbs.StatusSuccess)
	x.atomic(4, 1)
	x.wantDone(2, verbs.StatusSuccess, verbs.StatusSuccess)

	x = newSource(t, verbs.RC)
	x.post(verbs.OpWrite, 1, 0)
	x.post(verbs.OpRead, 1, 0)
	x.wantSent("0A 1A")
	x.response(1, 0, 1, 1)
	x.wantDone(0, verbs.StatusSuccess, verbs.StatusSuccess)
}

// Responses of another kind or length than the request.
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
		x := newSource(t, verbs.RC)
		x.post(verbs.OpRead, 600, 0)
		x.post(verbs.OpFetchAdd, 8, 0)
		x.wantSent("0A 3A")
		x.in(c.d)
		if c.d.PSN == psn(3) { // the READ before it ends first
			x.wantDone(0)
			x.response(0, 0, 3, 600)
			x.wantDone(0, verbs.StatusSuccess, verbs.StatusBadResponse)
		} else {
			x.wantDone(0, verbs.StatusBadResponse, verbs.StatusWRFlushed)
		}
		x.wantState(verbs.StateErr)
		if !bytes.Equal(x.m.regions[dataKey].data[600:], pattern(3, 1<<16)[600:]) {
			t.Errorf("%s: memory was touched", c.name)
		}
	}
}

// The requester's own memory refuses the response.
func TestReadIntoBadMemory(t *testing.T) {
	x := newSource(t, verbs.RC)
	x.post(verbs.OpWrite, 1, 0)
	x.post(verbs.OpRead, 600, 0, func(wr *verbs.SendWR) { wr.SGL[0].LKey = 0xBAD })
	x.wantSent("0A 1A")
	x.response(1, 0, 1, 600)
	x.wantDone(0, verbs.StatusSuccess, verbs.StatusLocalProtection)
	x.wantState(verbs.StateErr)
}

// A READ whose responses stop is requested again from the first missing packet.
func TestReadBreaksOff(t *testing.T) {
	x := newSource(t, verbs.RC)
	x.post(verbs.OpRead, 6*256, 0)
	x.wantSent("0A")
	x.now += 100_000
	x.response(0, 0, 3, 6*256)
	x.expire()
	x.wantAsked(asked{Op: rocev2.RCReadRequest, PSN: psn(3), Ack: true, Again: true, VA: 0x8000 + 3*256, Len: 256})
	x.in(rocev2.Datagram{Opcode: rocev2.RCReadResponseLast, PSN: psn(3), Syndrome: noCredits, Payload: pattern(9, 6*256)[3*256 : 4*256]})
	x.wantAsked(asked{Op: rocev2.RCReadRequest, PSN: psn(4), Ack: true, Again: true, VA: 0x8000 + 4*256, Len: 2 * 256})
	x.response(0, 4, 6, 6*256)
	x.wantDone(0, verbs.StatusSuccess)
}

// A peer that sends READ responses slowly but steadily gets one probe, not one for every
// packet.
func TestSlowRead(t *testing.T) {
	x := newSource(t, verbs.RC)
	x.post(verbs.OpRead, 20*256, 0)
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
	x.wantDone(0, verbs.StatusSuccess)
	if again > 3 {
		t.Errorf("asked %d times again", again)
	}
}

// A responder that was not scheduled in the middle of a READ continues where it was. A probe
// in that time causes no response to be sent twice and none to count as lost.
func TestStalledRead(t *testing.T) {
	for _, sel := range []bool{false, true} {
		for _, sent := range []int{0, 1, 100, 511} {
			p := newPair(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.Selective = sel })
			p.post(&verbs.SendWR{Op: verbs.OpWrite, RemoteAddr: dataBase, RKey: dataKey, SGL: []verbs.SGE{{Addr: dataBase, Len: 1, LKey: dataKey}}})
			p.run(func() bool { return p.side[0].q.req.rto.rtt.smoothed != 0 })
			const n = 512
			p.post(&verbs.SendWR{Op: verbs.OpRead, Flags: verbs.Signaled, RemoteAddr: dataBase, RKey: dataKey,
				SGL: []verbs.SGE{{Addr: dataBase, Len: n * 256, LKey: dataKey}}})
			s := p.side[1]
			p.run(func() bool { return s.data >= sent && s.q.rsp.res.responding() })
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

// Between two softroce engines a READ that is requested again because its response is late
// costs one packet, not the whole response; a lost response still arrives.
func TestLateRead(t *testing.T) {
	const n = 512
	for _, lost := range []int{0, 1, 200, n} {
		p := newPair(t, verbs.RC, selective)
		p.post(&verbs.SendWR{Op: verbs.OpWrite, RemoteAddr: dataBase, RKey: dataKey, SGL: []verbs.SGE{{Addr: dataBase, Len: 1, LKey: dataKey}}})
		p.run(func() bool { return p.side[0].q.req.rto.rtt.smoothed != 0 })
		responses := 0
		p.drop = func(from int, _ *rocev2.Packet) bool {
			if from == 1 {
				responses++
			}
			return from == 1 && responses <= lost
		}
		p.late[0] = p.now + 2e6
		p.post(&verbs.SendWR{Op: verbs.OpRead, Flags: verbs.Signaled, RemoteAddr: dataBase, RKey: dataKey,
			SGL: []verbs.SGE{{Addr: dataBase, Len: n * 256, LKey: dataKey}}})
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
