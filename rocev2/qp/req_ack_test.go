// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// One ACK for many messages; ACKs that acknowledge nothing new, or packets never sent.
func TestCoalescedAndStaleAcks(t *testing.T) {
	x := newSource(t, verbs.RC)
	for range 4 {
		x.post(verbs.OpWrite, 300, 0)
	}
	x.wantSent("0 1A 2 3A 4 5A 6 7A")
	x.ack(4)
	x.wantDone(0, verbs.StatusSuccess, verbs.StatusSuccess)
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
	x.aeth(7, 0x17, 5) // an ACK with credits: the low bits have no effect
	x.wantDone(2, verbs.StatusSuccess, verbs.StatusSuccess)
	x.ack(7)
	x.response(7, 0, 1, 1)
	x.atomic(7, 1)
	if x.count.StaleAnswer != 7 { // the last ACK once more may bring credits
		t.Errorf("%d stale answers, want 7", x.count.StaleAnswer)
	}
	x.wantState(verbs.StateRTS)
}

// NAKs that end the connection: earlier work requests succeed, later ones are flushed.
func TestFatalNaks(t *testing.T) {
	for _, c := range []struct {
		code rocev2.NAKCode
		want verbs.Status
		n    *uint64
	}{
		{rocev2.NAKInvalidRequest, verbs.StatusRemoteInvalidRequest, nil},
		{rocev2.NAKRemoteAccess, verbs.StatusRemoteAccess, nil},
		{rocev2.NAKRemoteOp, verbs.StatusRemoteOperation, nil},
		{9, verbs.StatusBadResponse, nil}, // reserved
	} {
		x := newSource(t, verbs.RC)
		for range 4 {
			x.post(verbs.OpWrite, 300, 0)
		}
		x.wantSent("0 1A 2 3A 4 5A 6 7A")
		x.nak(4, c.code)
		x.wantDone(0, verbs.StatusSuccess, verbs.StatusSuccess, c.want, verbs.StatusWRFlushed)
		x.wantState(verbs.StateErr)
		if got := x.count.NakAccess + x.count.NakInvalid + x.count.NakOperation; (got == 1) != (c.want != verbs.StatusBadResponse) {
			t.Errorf("%s: counters %+v", c.want, x.count)
		}
	}
	// The NAK of a READ that was repeated, although all before it was acknowledged.
	x := newSource(t, verbs.RC)
	x.post(verbs.OpRead, 600, 0)
	x.post(verbs.OpWrite, 1, 0)
	x.wantSent("0A 3A")
	x.response(0, 0, 1, 600)
	x.nak(1, rocev2.NAKRemoteAccess)
	x.wantDone(0, verbs.StatusRemoteAccess, verbs.StatusWRFlushed)
}

// After an error of the requester nothing more is sent: a READ response in progress stops,
// and no ACK leaves.
func TestSilentInErr(t *testing.T) {
	for name, end := range map[string]func(*source){
		"NAK": func(x *source) { x.nak(0, rocev2.NAKRemoteAccess) },
		"retries": func(x *source) {
			x.q.attr.RetryCnt = 0
			for range 20 {
				if x.q.State() != verbs.StateErr {
					x.expire()
				}
			}
		},
		"answer": func(x *source) { x.ack(0); x.response(1, 0, 1, 5) },
	} {
		x := newSource(t, verbs.RC)
		for n, d := range []dg{read(dataBase, 600), write(wo, dataBase, 0, 0)} {
			d.PSN, d.AckReq = rocev2.PSN(3*n), true
			p := build(t, d)
			x.q.attr.Access = allRights
			x.q.Receive(x.now, &p)
		}
		x.post(verbs.OpWrite, 8, 0)
		x.post(verbs.OpRead, 600, 0)
		if got := x.sends(3); len(got) != 3 || !x.q.rsp.res.responding() {
			t.Fatalf("%s: %+v", name, got)
		}
		end(x)
		if x.q.State() != verbs.StateErr {
			t.Fatalf("%s: %s", name, x.q.State())
		}
		if got := x.sends(9); got != nil || x.q.NextAck(x.now, &x.out) {
			t.Errorf("%s: still leaves in ERR: %+v %s", name, got, x.out.Opcode)
		}
	}
}

// NAK PSN: all packets before it have arrived, all from it on are sent again, once per round
// trip.
func TestNakSequence(t *testing.T) {
	x := newSource(t, verbs.RC)
	for range 5 {
		x.post(verbs.OpWrite, 300, 0)
	}
	x.wantSent("0 1A 2 3A 4 5A 6 7A 8 9A")
	x.nak(3, rocev2.NAKPSNSequence)
	x.wantDone(0, verbs.StatusSuccess)
	x.wantSent("3A! 4A! 5A! 6A!") // the window is half the packets in flight, and at least 4
	for range 10 {                // a storm
		x.nak(3, rocev2.NAKPSNSequence)
	}
	x.wantSent("")
	x.ack(4)
	x.wantSent("7A! 8A!")
	x.nak(2, rocev2.NAKPSNSequence)  // old
	x.nak(10, rocev2.NAKPSNSequence) // never sent
	x.wantSent("")
	x.ack(9)
	x.wantDone(1, verbs.StatusSuccess, verbs.StatusSuccess, verbs.StatusSuccess, verbs.StatusSuccess)
	if x.count.SentAgain != 6 || x.count.Timeouts != 0 {
		t.Errorf("counters %+v", x.count)
	}
}

// The same NAK one round trip later counts: the retransmission was lost too.
func TestNakAgain(t *testing.T) {
	x := newSource(t, verbs.RC)
	for range 3 {
		x.post(verbs.OpWrite, 1, 0)
	}
	x.wantSent("0A 1A 2A")
	x.nak(0, rocev2.NAKPSNSequence)
	x.wantSent("0A! 1A! 2A!")
	x.now += minProbeTimeout - 1
	x.nak(0, rocev2.NAKPSNSequence)
	x.wantSent("")
	x.now++
	x.nak(0, rocev2.NAKPSNSequence)
	x.wantSent("0A! 1A! 2A!")
}

// Responses to a queue pair of another service, or in a state without responses.
func TestAnswersIgnored(t *testing.T) {
	x := newSource(t, verbs.UC)
	x.post(verbs.OpSend, 1, 0)
	x.wantSent("0")
	x.ack(0)
	y := newTarget(t, verbs.RC)
	y.in(rocev2.Datagram{Opcode: rocev2.RCAck, PSN: psn(0)})
	if x.count.Ignored != 1 || y.count.Ignored != 1 {
		t.Errorf("ignored %d and %d", x.count.Ignored, y.count.Ignored)
	}
}
