// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

const testLarge = 8 // CS1

// flowOf is a queue pair of a flow of this class that has sent nothing.
func flowOf(t *testing.T, class precredit.Class) (*credits, *QP) {
	e := bench(t)
	e.Begin(1)
	c := newCredits(e, PreCredit{Frames: 4096, LargeDSCP: testLarge})
	c.sender.BDPBytes = 4096
	d := &dest{}
	p := c.remember(peer)
	p.dest, d.credit = d, p
	p.TurnOn()
	x := queuePairAt(d)
	x.selective, x.dest, x.credit = true, d, &creditFlow{}
	size := uint64(1)
	if class == precredit.Large {
		size = 1 << 20
	}
	x.credit.Packet = 1024
	p.Post(1, &x.credit.Flow, precredit.Work{First: true, Bytes: size, Features: precredit.Features{TotalBytes: size, PostedBytes: size, RegionBytes: size}})
	if x.credit.Class() != class {
		panic("not the class that was asked for")
	}
	return c, x
}

func dscps(c *credits, x *QP, packets int) (out []uint8) {
	for range packets {
		o := qp.Outbound{Datagram: rocev2.Datagram{Opcode: rocev2.RCWriteMiddle}, PayloadLen: 1024}
		out = append(out, c.tclass(x, &o, 0x2<<2|1)>>2)
	}
	return out
}

// A small flow is marked beyond its first round trip, a large one from the start; and
// once a packet was marked all that follow are, so that none overtakes it.
func TestLargeClass(t *testing.T) {
	for _, test := range []struct {
		class precredit.Class
		plain int
	}{{precredit.Small, 4}, {precredit.Large, 0}} {
		c, x := flowOf(t, test.class)
		got := dscps(c, x, 4)
		x.dest.credit.End(&x.credit.Flow) // as its first ACK does
		got = append(got, dscps(c, x, 4)...)
		for i, d := range got {
			want := uint8(testLarge)
			if i < test.plain {
				want = 2
			}
			if d != want {
				t.Errorf("%v flow: packet %d has DSCP %d, want %d", test.class, i, d, want)
			}
		}
	}
	c, x := flowOf(t, precredit.Large)
	o := qp.Outbound{Datagram: rocev2.Datagram{Opcode: rocev2.RCWriteOnly}, PayloadLen: 1}
	if got := c.tclass(x, &o, 0x2<<2|1); got != testLarge<<2|1 {
		t.Errorf("traffic class %#x: the ECN bits are the queue pair's", got)
	}
	for _, op := range []rocev2.Opcode{rocev2.RCAck, rocev2.RCReadRequest, rocev2.RCReadResponseOnly, rocev2.RCFetchAdd, rocev2.OpSACK} {
		o := qp.Outbound{Datagram: rocev2.Datagram{Opcode: op}}
		if got := c.tclass(x, &o, 0); got != 0 {
			t.Errorf("%v is marked", op)
		}
	}
	x.selective = false // a peer with go-back-N
	if got := dscps(c, x, 1); got[0] != 2 {
		t.Error("marked without SACK")
	}
	c, x = flowOf(t, precredit.Large)
	c.large = 0
	if got := dscps(c, x, 8); got[0] != 2 || got[7] != 2 {
		t.Error("marked although no DSCP was given")
	}
}

// While marked packets are in flight, the others' delays are not measured:
// they pass the queue that matters.
func TestMarkedAloneAreMeasured(t *testing.T) {
	c, x := flowOf(t, precredit.Large)
	if c.omitT1(x.dest, 0, 5) {
		t.Error("nothing was marked yet")
	}
	dscps(c, x, 1) // at 1
	for _, test := range []struct {
		tclass uint8
		now    qp.Time
		want   bool
	}{{0, 2, true}, {testLarge << 2, 2, false}, {testLarge<<2 | 3, 2, false}, {0, 1 + largeWindow, false}} {
		if got := c.omitT1(x.dest, test.tclass, test.now); got != test.want {
			t.Errorf("traffic class %#x at %d: %v", test.tclass, test.now, got)
		}
	}
}

// With pre-credit a queue pair's turns get shorter the more it was served, and a new
// flow is done before those that go on for long.
func TestTurnsFade(t *testing.T) {
	e := bench(t)
	e.hooks = &credits{e: e}
	d := &dest{}
	var all []*QP
	for range 9 {
		x := queuePairAt(d)
		x.hooked, x.credit = true, &creditFlow{}
		e.tx.enqueue(&x.egress)
		all = append(all, x)
	}
	const packet = 1100
	serve := func() *QP {
		x := d.drr.First().qp
		e.tx.chargeDeficit(d, x, packet)
		return x
	}
	young := all[8]
	d.remove(&young.egress)
	for range 2000 {
		serve()
	}
	young.credit.served = 0
	e.tx.enqueue(&young.egress)
	others, mine := 0, 0
	for mine < 32<<10 {
		if serve() == young {
			mine += packet
		} else {
			others += packet
		}
	}
	// One turn of each at the least weight, and what that overdraws.
	if limit := 8 * (precredit.DefaultQuantum + packet); others > limit {
		t.Errorf("%d bytes of the old before 32 KB of the new, want at most %d", others, limit)
	}
	sent := map[*QP]int{}
	for range 9000 {
		sent[serve()]++
	}
	for _, x := range all { // and in the long run all are alike
		if n := sent[x]; n < 900 || n > 1100 {
			t.Errorf("%d of 9000 packets", n)
		}
	}
}
