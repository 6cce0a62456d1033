// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// memoryPort is a port with so many free frames. What is pushed is gone.
type memoryPort struct {
	free  int
	frame [2048]byte
}

// Room implements Port.
func (p *memoryPort) Room() bool { return p.free > 0 }

// Frame implements Port.
func (p *memoryPort) Frame() []byte {
	if p.free == 0 {
		return nil
	}
	return p.frame[:]
}

// Push implements Port.
func (p *memoryPort) Push(int) { p.free-- }

// twoPorts is a core with two ports, of 64 frames each, and a handle for a destination behind either.
func twoPorts(t *testing.T) (e *Core, ports [2]*memoryPort, to [2]*testAH) {
	t.Helper()
	e = bench(t)
	e.dests.timers.Advance(1, nil)
	for i := range to {
		dst := netip.AddrFrom4([4]byte{10, 77, 0, byte(10 + i)})
		to[i] = openAH(e, fixed(PathState{Src: us, Dst: dst, Ether: [14]byte{12: 8}, MTU: 1500, PMTU: rocev2.PMTU1024}))
		ports[i] = &memoryPort{free: 64}
		to[i].address.dest.port = ports[i]
		to[i].address.dest.waitsUntil = 0 // not for a token
	}
	return e, ports, to
}

// datagrams is a queue pair of UD in RTS.
func datagrams(t *testing.T, e *Core) *QP {
	t.Helper()
	x, cq := &QP{}, &testCQ{e: e}
	if err := e.AddQP(x, QPConfig{Config: qp.Config{Type: verbs.UD, SendCQ: cq, RecvCQ: cq, MaxSend: 128, MaxInline: 16}}); err != nil {
		t.Fatal(err)
	}
	a := verbs.Attr{PMTU: rocev2.PMTU1024}
	for _, step := range []struct {
		to   verbs.State
		mask verbs.AttrMask
	}{{verbs.StateInit, verbs.MaskQKey}, {verbs.StateRTR, verbs.MaskPMTU}, {verbs.StateRTS, verbs.MaskSQPSN}} {
		a.State = step.to
		if err := x.q.Modify(a, verbs.MaskState|step.mask); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

func (x *QP) postTo(t *testing.T, a *testAH) {
	t.Helper()
	if err := x.q.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Inline, Data: []byte("datagram"), AH: a, RemoteQPN: 5, RemoteQKey: 7}); err != nil {
		t.Fatal(err)
	}
}

// A port without frames holds up only who sends to its destinations.
func TestOnePortFull(t *testing.T) {
	e, ports, to := twoPorts(t)
	ports[0].free = 0
	blocked, free := datagrams(t, e), datagrams(t, e)
	blocked.postTo(t, to[0])
	for range 3 {
		free.postTo(t, to[1])
	}
	for range 2 {
		blocked.postTo(t, to[1]) // behind the first one, which must leave before
	}
	for _, x := range []*QP{blocked, free} {
		e.tx.markDirty(x)
	}
	e.tx.flushDirty()
	if sent := e.tx.transmit(); sent != 3 || free.q.SendQueued() != 0 {
		t.Errorf("%d packets left for the destination whose port has room, want 3", sent)
	}
	if blocked.q.SendQueued() != 3 || !e.tx.framesExhausted {
		t.Errorf("%d messages of the other still wait, want 3; blocked %v", blocked.q.SendQueued(), e.tx.framesExhausted)
	}
	ports[0].free = 64
	if sent := e.tx.transmit(); sent != 3 || blocked.q.SendQueued() != 0 {
		t.Errorf("then %d packets left, want 3", sent)
	}
}

// A datagram waits for the pacer of its own destination, not for that of the one
// before it.
func TestDatagramWaitsForItsOwn(t *testing.T) {
	e, _, to := twoPorts(t)
	e.dests.rails[0].config.Paced, e.now = true, 1e9
	to[0].address.dest.pacer = newBucket(1e6)
	to[0].address.dest.pacer.Consume(int64(e.now), 0, 0) // empty now: its packet is followed by a pause
	x := datagrams(t, e)
	x.postTo(t, to[0])
	x.postTo(t, to[1])
	x.postTo(t, to[0])
	x.postTo(t, to[1])
	e.tx.markDirty(x)
	e.tx.flushDirty()
	if sent := e.tx.transmit(); sent != 2 || to[0].address.dest.paceBlocked == 0 || to[1].address.dest.paceBlocked != 0 {
		t.Errorf("%d packets left, want 2: the third goes where the first one went; pace-blocked: %v, %v", sent, to[0].address.dest.paceBlocked, to[1].address.dest.paceBlocked)
	}
}

// A queue pair that has sent for long without another one at its destination gets its part next to one that comes then, and
// no more.
func TestPartAfterStream(t *testing.T) {
	e, ports, to := twoPorts(t)
	a, b := datagrams(t, e), datagrams(t, e)
	fill := func(x *QP) {
		for x.q.SendQueued() < 128 {
			x.postTo(t, to[0])
		}
		e.tx.markDirty(x)
	}
	send := func(all ...*QP) {
		for _, x := range all {
			fill(x)
		}
		ports[0].free = 64
		e.tx.flushDirty()
		if sent := e.tx.transmit(); sent != 64 {
			t.Fatalf("%d packets left, want 64", sent)
		}
	}
	for range 100 { // some 30 quanta
		send(a)
	}
	var sent [2]int
	for range 40 {
		send(a, b)
		sent[0] += 128 - a.q.SendQueued()
		sent[1] += 128 - b.q.SendQueued()
	}
	if d := sent[0] - sent[1]; d > 256 || d < -256 { // a quantum is some 170 packets
		t.Errorf("%d and %d packets left", sent[0], sent[1])
	}
}
