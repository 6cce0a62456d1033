// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// sackBits returns a SACK's bitmap as the numbers of the packets that it reports.
func (x *target) sackBits() (cumulative rocev2.PSN, reported []int) {
	x.t.Helper()
	p, err := rocev2.ParseIP(x.frame)
	if err != nil || p.Opcode() != rocev2.OpSACK {
		x.t.Fatalf("the last packet is no SACK: %v", err)
	}
	cumulative = p.BTH().PSN()
	for i := range sackWindow {
		if p.SACK().Has(i) {
			reported = append(reported, cumulative.Add(i+1).Diff(firstPSN))
		}
	}
	return cumulative, reported
}

// put delivers WRITE n, of 4 bytes to their place, with AckReq or without.
func (x *target) put(n int, ask bool) {
	x.t.Helper()
	w := write(wo, dataBase+uint64(n)*4, 4, 4)
	w.PSN, w.AckReq = psn(n), ask
	w.Payload[0] = byte(n)
	x.in(w)
}

func (x *target) wantSACK(upTo int, msn uint32, reported ...int) {
	x.t.Helper()
	x.wantOut(said{Op: rocev2.OpSACK, PSN: psn(upTo), Syndrome: noCredits, MSN: msn})
	cum, got := x.sackBits()
	if cum != psn(upTo) || len(got) != len(reported) {
		x.t.Fatalf("SACK of %d with %v, want %d with %v", cum.Diff(firstPSN), got, upTo, reported)
	}
	for i := range got {
		if got[i] != reported[i] {
			x.t.Fatalf("SACK reports %v, want %v", got, reported)
		}
	}
}

// A gap: a SACK when it opens, after four more packets, and when one is asked for;
// the rest is executed in order when the missing packet comes.
func TestReorder(t *testing.T) {
	x := newTarget(t, verbs.RC, selective)
	x.put(0, false)
	x.put(2, false)
	x.wantSACK(0, 1, 2)
	x.put(4, false)
	x.put(5, false)
	x.put(70, false)
	x.wantOut()
	x.put(6, false)
	x.wantSACK(0, 1, 2, 4, 5, 6, 70)
	x.put(5, true) // again
	x.wantSACK(0, 1, 2, 4, 5, 6, 70)
	if got := x.m.regions[dataKey].data[8]; got != 0 {
		t.Error("a packet beyond the gap was executed")
	}
	x.put(1, false)
	x.wantSACK(2, 3, 4, 5, 6, 70) // the next gap
	x.put(3, true)
	x.wantSACK(6, 7, 70)
	for n := 7; n < 70; n++ {
		x.put(n, false)
		x.out()
	}
	if x.q.rsp.reorder != nil {
		t.Error("something is still kept")
	}
	x.put(71, true)
	x.wantOut(ackOf(71, 72))
	for n := range 72 {
		if got := x.m.regions[dataKey].data[n*4]; got != byte(n) {
			t.Errorf("WRITE %d left %#x", n, got)
		}
	}
	if x.count.Delivered != 72 || x.count.SACKSent != 5 {
		t.Errorf("counted %+v", x.count)
	}
}

// Packets beyond the window are not buffered, and cause no error.
func TestReorderWindow(t *testing.T) {
	x := newTarget(t, verbs.RC, selective)
	x.put(128, false) // too far: an ordinary NAK
	x.wantOut(nakOf(0, 0, rocev2.NAKPSNSequence))
	x.put(127, false) // the gap is known already
	x.put(128, true)
	x.wantOut()
	for n := range 127 {
		x.put(n, n == 126)
	}
	x.wantOut(ackOf(127, 128))
}

// A pool without buffers: a packet that finds none is dropped and sent again.
func TestHoldPoolIsTheBound(t *testing.T) {
	pool := NewReorderPool(2)
	x := newTarget(t, verbs.RC, selective, func(c *Config, _ *verbs.Attr) { c.Reorder = pool })
	y := newTarget(t, verbs.RC, selective, func(c *Config, _ *verbs.Attr) { c.Reorder = pool })
	x.put(1, false)
	x.put(2, false)
	x.put(3, true)
	x.wantSACK(-1, 0, 1, 2)
	y.put(1, false)
	y.wantOut(nakOf(0, 0, rocev2.NAKPSNSequence))
	y.put(0, true)
	y.put(1, true)
	y.wantOut(ackOf(1, 2))
	x.put(0, true)
	x.wantOut(ackOf(2, 3))
	if len(pool.buffers) != 2 || len(pool.free) != 1 || pool.free[0].n != 0 {
		t.Errorf("the pool has %d buffers and %d holds back", len(pool.buffers), len(pool.free))
	}
}

// A buffered SEND without a receive: the RNR NAK is for it, later packets stay buffered
// without a response, and nothing is executed out of order.
func TestReorderRNR(t *testing.T) {
	x := newTarget(t, verbs.RC, selective)
	s := send(so, 4)
	s.PSN = psn(1)
	x.in(s)
	x.put(2, true)
	x.out()
	x.put(0, false)
	rnr := said{Op: rocev2.RCAck, PSN: psn(1), Syndrome: rocev2.SyndromeRNR(12), MSN: 1}
	x.wantOut(rnr)
	x.put(3, true) // no SACK now
	x.wantOut()
	x.postRecv(9, 1, 4)
	x.in(s)
	x.wantOut(ackOf(3, 4))
	x.wantDone(verbs.Completion{WRID: 9, Op: verbs.OpRecv, Bytes: 4})
}

// READs among the buffered packets: their responses take PSNs of their own, and a SACK
// follows them like an ACK.
func TestReorderRead(t *testing.T) {
	x := newTarget(t, verbs.RC, selective)
	r := read(dataBase, 300)
	r.PSN = psn(1)
	x.in(r)
	x.put(3, false)
	x.out()
	x.put(2, false) // inside the READ: no requester sends it
	x.put(5, true)
	x.put(0, true)
	var ops []rocev2.Opcode
	for _, s := range x.out() {
		ops = append(ops, s.Op)
	}
	want := []rocev2.Opcode{rocev2.RCAck, rocev2.RCReadResponseFirst, rocev2.RCReadResponseLast, rocev2.OpSACK}
	if len(ops) != 4 || [4]rocev2.Opcode(ops) != [4]rocev2.Opcode(want) {
		t.Fatalf("answers %v, want %v", ops, want)
	}
	if cum, got := x.sackBits(); cum != psn(3) || len(got) != 1 || got[0] != 5 {
		t.Errorf("SACK of %v with %v", cum.Diff(firstPSN), got)
	}
	if x.count.Delivered != 3 {
		t.Errorf("%d delivered, want 3", x.count.Delivered)
	}
	x.put(4, true)
	x.wantOut(ackOf(5, 5))
	if x.q.rsp.reorder != nil || len(x.q.cfg.Reorder.buffers) != 4 {
		t.Errorf("%d buffers back, want 4", len(x.q.cfg.Reorder.buffers))
	}
}

// Buffers return to the pool when the connection ends.
func TestReorderEnds(t *testing.T) {
	for _, end := range []verbs.State{verbs.StateErr, verbs.StateReset} {
		pool := NewReorderPool(8)
		x := newTarget(t, verbs.RC, selective, func(c *Config, _ *verbs.Attr) { c.Reorder = pool })
		x.put(1, false)
		x.put(2, false)
		if err := x.q.Modify(verbs.Attr{State: end}, verbs.MaskState); err != nil {
			t.Fatal(err)
		}
		if len(pool.buffers) != 2 || x.q.rsp.reorder != nil {
			t.Errorf("%s: %d buffers back, want 2", end, len(pool.buffers))
		}
	}
	// And when the peer does not understand SACK after all.
	y := newTarget(t, verbs.RC, selective)
	y.put(1, false)
	if err := y.q.Modify(verbs.Attr{}, verbs.MaskSelective); err != nil {
		t.Fatal(err)
	}
	y.put(0, true)
	y.wantOut(ackOf(0, 1))

	// And when a buffered packet ends it.
	pool := NewReorderPool(8)
	x := newTarget(t, verbs.RC, selective, func(c *Config, _ *verbs.Attr) { c.Reorder = pool })
	bad := write(wo, 0, 4, 4)
	bad.PSN = psn(1)
	x.in(bad)
	x.put(2, false)
	x.out()
	x.put(0, false)
	x.wantOut(nakOf(1, 1, rocev2.NAKRemoteAccess))
	if len(pool.buffers) != 2 {
		t.Errorf("%d buffers back, want 2", len(pool.buffers))
	}
}
