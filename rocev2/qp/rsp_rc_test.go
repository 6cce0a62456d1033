// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// One NAK for a gap, another for the next one, none if the missing packet came first.
func TestSequenceError(t *testing.T) {
	x := newTarget(t, verbs.RC)
	put := func(n int) {
		w := write(wo, dataBase+uint64(n)*4, 4, 4)
		w.PSN, w.AckReq = psn(n), true
		x.in(w)
	}
	put(0)
	put(2)
	x.wantOut(nakOf(1, 1, rocev2.NAKPSNSequence))
	put(3)
	put(4)
	x.wantOut()
	put(0) // a duplicate is still answered
	x.wantOut(ackOf(0, 1))
	put(1)
	put(2)
	put(3)
	x.wantOut(ackOf(3, 4))
	put(5)
	x.wantOut(nakOf(4, 4, rocev2.NAKPSNSequence))
	put(4)
	put(6)
	put(5)
	x.wantOut(ackOf(5, 6))
	if x.count.OutOfSequence != 5 || x.count.DuplicateRequest != 1 || x.count.Delivered != 6 {
		t.Errorf("counted %+v", x.count)
	}
}

// No receive posted: an RNR NAK with our timer, no response until the packet is sent again,
// and then normal operation.
func TestReceiverNotReady(t *testing.T) {
	rnr := func(n int, msn uint32) said {
		return said{Op: rocev2.RCAck, PSN: psn(n), Syndrome: rocev2.SyndromeRNR(12), MSN: msn}
	}
	x := newTarget(t, verbs.RC)
	s := send(so, 8)
	s.PSN, s.AckReq = psn(0), true
	x.in(s)
	x.wantOut(rnr(0, 0))
	later := s
	later.PSN = psn(1)
	x.in(later)
	x.wantOut()
	x.in(s)
	x.wantOut(rnr(0, 0))
	x.postRecv(7, 1, 64)
	x.in(s)
	x.wantOut(ackOf(0, 1))
	x.wantDone(verbs.Completion{WRID: 7, Op: verbs.OpRecv, Bytes: 8})

	// A WRITE with immediate data needs its receive at the end; without it the last packet
	// writes nothing.
	x.psn = psn(1)
	x.next(write(wf, dataBase, 264, 256))
	last := dg{Opcode: rocev2.RCWriteLastImm, PSN: psn(2), Imm: 3, AckReq: true, Payload: pattern(1, 8)}
	x.in(last)
	x.wantOut(rnr(2, 1))
	if got := x.m.regions[dataKey].data[256]; got != 0 {
		t.Errorf("the refused packet wrote %#x", got)
	}
	x.postRecv(8, 1, 0)
	x.in(last)
	x.wantOut(ackOf(2, 2))
	x.wantDone(verbs.Completion{WRID: 8, Op: verbs.OpRecvWriteImm, Bytes: 264, HasImm: true, Imm: 3})
	if x.count.RNRSent != 3 {
		t.Errorf("counted %d RNR NAKs, want 3", x.count.RNRSent)
	}
}

// Duplicates of SEND and WRITE have no effect but an ACK; one for many.
func TestDuplicates(t *testing.T) {
	x := newTarget(t, verbs.RC)
	x.postRecv(1, 2, 64)
	s := send(so, 8)
	s.PSN = psn(0)
	w := write(wo, dataBase, 8, 8)
	w.PSN, w.AckReq = psn(1), true
	x.in(s)
	x.in(w)
	x.wantOut(ackOf(1, 2))
	x.wantDone(verbs.Completion{WRID: 1, Op: verbs.OpRecv, Bytes: 8})
	clear(x.m.regions[dataKey].data)
	x.in(s)
	x.in(w)
	x.wantOut(ackOf(1, 2))
	x.in(w)
	x.wantOut(ackOf(1, 2))
	x.wantDone()
	if len(x.m.ended) != 1 || x.m.regions[dataKey].data[0] != 0 || x.q.rsp.ring.n != 1 || x.count.DuplicateRequest != 3 {
		t.Errorf("a duplicate had an effect: %d receives left, counted %+v", x.q.rsp.ring.n, x.count)
	}
}

// Packets of another service or with an unknown opcode have no effect (IBTA 9.6.1).
func TestIgnoreOtherServices(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		x := newTarget(t, typ)
		x.postRecv(0, 1, 1024)
		var want uint64
		for i := range 256 {
			op := rocev2.Opcode(i)
			info := op.Info()
			if op>>5 == rocev2.Opcode(map[verbs.QPType]byte{verbs.RC: 0, verbs.UC: 1, verbs.UD: 3}[typ]) || !op.Known() || x.q.isResponse(op, info) {
				continue
			}
			x.in(dg{Opcode: op, PSN: firstPSN, QKey: 0x1234})
			want++
		}
		x.wantOut()
		x.wantDone()
		if x.count.Ignored != want || x.q.State() != verbs.StateRTR {
			t.Errorf("%s: ignored %d of %d, now in %s", typ, x.count.Ignored, want, x.q.State())
		}
	}
}
