// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// hasTimer reports that a timer of the queue pair runs.
func (x *QP) hasTimer() bool { return x.ackWaiting || x.timer.At() != 0 }

// refuse has a queue pair receive an RNR NAK for the packet of a PSN.
func (l *loopback) refuse(x *QP, psn rocev2.PSN) {
	l.t.Helper()
	d := rocev2.Datagram{Src: us, Dst: us, SrcPort: 0xC000, IPID: 1, DestQP: x.num, Opcode: rocev2.RCAck, PSN: psn, Syndrome: rocev2.SyndromeRNR(12)}
	b, err := d.AppendTo(make([]byte, etherLen, 512))
	if err != nil {
		l.t.Fatal(err)
	}
	binary.BigEndian.PutUint16(b[12:], 0x0800)
	l.e.rx.frame(b, Meta{Proven: true}, !x.hooked)
}

// waitingPair is two queue pairs of one destination that wait for its window, which is full. The first one is refused what it
// has sent: there is room.
func waitingPair(t *testing.T) (l *loopback, a, b *QP) {
	l = newLoopback(t, 1)
	a, b = l.connect(verbs.RC, rocev2.PMTU1024, 8), l.connect(verbs.RC, rocev2.PMTU1024, 8)
	first := a.q.Attr().SQPSN
	l.e.Begin(testNow())
	a.dest.flight.SetWindow(5000)
	for _, x := range []*QP{a, b} {
		for range 8 {
			l.post(x, verbs.OpSend, 4096)
		}
		l.e.tx.flushDirty()
		l.e.tx.transmit()
	}
	if !a.q.Waits() || !b.q.Waits() || b.q.Deadline() != 0 {
		t.Fatalf("they wait: %v, %v; the deadline of the second one is %d", a.q.Waits(), b.q.Waits(), b.q.Deadline())
	}
	l.e.rx.loopback.count = 0 // all is lost
	l.refuse(a, first)
	return l, a, b
}

// A queue pair in RNR wait does not keep others of its destination waiting, which have no timer.
func TestRNRWaitBlocksNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a, b := waitingPair(t)
		l.e.Run(false)
		if n := l.e.rx.loopback.count; n != 5 || b.q.Deadline() == 0 || a.SendQueued() != 8 {
			t.Errorf("%d packets of the other one have left, want 5; its deadline is %d", n, b.q.Deadline())
		}
	})
}

// The budget of queue pairs that are asked for packets ends with one that has none: the next one that waits for room is
// queued nevertheless.
func TestUnblockedAfterLastTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a, b := waitingPair(t)
		l.e.tx.flushDirty() // which serves the first one
		d, tries := l.e.tx.ready.Pop(), 1
		if d != a.dest || d.drr.First() != &a.egress || d.drr.Others() {
			t.Fatal("the first queue pair is not in service alone: this shows nothing")
		}
		if sent, _ := l.e.tx.serve(d, destBurst, &tries); sent != 0 || d.drr.First() != &b.egress {
			t.Errorf("%d packets have left, and the second queue pair is queued: %v", sent, d.drr.First() == &b.egress)
		}
	})
}

// The port is full for good: the timers of its queue pairs run, and the connections end.
func TestTimersWhilePortIsFull(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer bool // an answer waits for the port, else more data does
	}{{"more data", false}, {"an answer", true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLoopback(t, 1)
				x := l.connect(verbs.RC, rocev2.PMTU1024, 8)
				y := l.e.qps.Lookup(x.q.Attr().DestQPN)
				l.e.Begin(testNow())
				if c.answer {
					l.post(y, verbs.OpWrite, 8)
				}
				l.e.tx.flushDirty()
				l.e.tx.transmit()
				l.transfer()
				l.post(x, verbs.OpWrite, 8)
				if !c.answer {
					l.post(x, verbs.OpWrite, 100_000)
					x.q.RequestAckNext() // in the packet that leaves
				}
				l.e.tx.flushDirty()
				d, tries := l.e.tx.ready.Pop(), txTries
				d.queued = false
				n := 1
				if c.answer {
					n = 2 // there is no second one: the queue pair is not queued any more
				}
				if sent, _ := l.e.tx.serve(d, n, &tries); sent != 1 || x.drr.Queued() == c.answer {
					t.Fatalf("%d packets have left, it is queued: %v", sent, x.drr.Queued())
				}
				if !d.drr.Empty() {
					l.e.tx.enqueueDest(d)
				}
				l.receive()
				for start := time.Now(); len(l.cq.list) == 0; {
					l.e.rx.loopback.count = loopbackLimit
					l.e.Run(false)
					if time.Since(start) > time.Minute {
						t.Fatalf("the connection has not ended after a minute; a timer runs: %v", x.hasTimer())
					}
					time.Sleep(10 * time.Millisecond)
					l.e.Begin(testNow())
				}
				if c := l.cq.list[0]; c.QPN != x.num || c.Status != verbs.StatusRetryExceeded {
					t.Errorf("%+v", c)
				}
			})
		})
	}
}

// A queue pair that may not go on in its first flight has a timer for what it has sent.
func TestTimerOfBlockedFirstFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{calls: map[string]int{}}
		l := newLoopback(t, 1)
		l.e.hooks = r
		x := l.connect(verbs.RC, rocev2.PMTU1024, 8)
		for l.e.iterate() != 0 { // what connecting has left
		}
		l.post(x, verbs.OpWrite, 8)
		l.post(x, verbs.OpWrite, 100_000)
		l.e.tx.flushDirty()
		x.q.RequestAckNext()
		d, tries := l.e.tx.ready.Pop(), txTries
		l.e.tx.serve(d, 1, &tries)
		if x.q.Deadline() == 0 || x.hasTimer() || d.drr.Empty() {
			t.Fatalf("deadline %d, timer %v: this shows nothing", x.q.Deadline(), x.hasTimer())
		}
		r.refuse = true
		if l.e.tx.serve(d, 1, &tries); !d.drr.Empty() || !x.hasTimer() {
			t.Errorf("it is queued: %v, a timer runs: %v", !d.drr.Empty(), x.hasTimer())
		}
	})
}

// A queue pair that stays queued has a timer for what it has sent, after its turn and while the pacer keeps its next packet.
func TestTimersOfQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoopback(t, 1)
		x, y := l.connect(verbs.RC, rocev2.PMTU1024, 8), l.connect(verbs.RC, rocev2.PMTU1024, 8)
		for l.e.iterate() != 0 {
		}
		for _, o := range []*QP{x, y} {
			l.post(o, verbs.OpWrite, 100_000)
		}
		l.e.tx.flushDirty()
		d, tries := l.e.tx.ready.Pop(), txTries
		for range destBurst { // x has had its turn, and y has begun
			l.e.tx.serve(d, 1, &tries)
		}
		if d.drr.First() != &y.egress || x.q.Deadline() == 0 || !x.hasTimer() {
			t.Errorf("after its turn: deadline %d, timer %v", x.q.Deadline(), x.hasTimer())
		}
		y.q.RequestAckNext()
		d.pacer = newBucket(1e3)
		if l.e.tx.serve(d, 2, &tries); d.paceBlocked == 0 || y.q.Deadline() == 0 || !y.hasTimer() {
			t.Errorf("while the pacer keeps it: deadline %d, timer %v", y.q.Deadline(), y.hasTimer())
		}
	})
}

// A destination in service, or a packet to the core itself, is something to do at once. A destination whose port is full is
// not: the program looks again when it has sent.
func TestDeadlineOfReadyDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoopback(t, 1)
		x := l.connect(verbs.RC, rocev2.PMTU1024, 8)
		for l.e.iterate() != 0 {
		}
		e, d := l.e, x.dest
		d.setPolicyWindow(e, 1000)
		l.post(x, verbs.OpWrite, 4096)
		e.Run(false)
		e.rx.loopback.count = 0 // the packet is lost
		if !x.q.Waits() {
			t.Fatal("the queue pair does not wait for room: this shows nothing")
		}
		e.dests.applyEntry(d, &DestSync{}) // no window: what a reply brings after Run
		if e.Deadline(e.now, e.now+1e9) != e.now {
			t.Error("the core sleeps although a queue pair may send")
		}
		e.rx.loopback.count = loopbackLimit
		e.tx.transmit()
		e.rx.loopback.count = 0
		if !e.tx.framesExhausted || e.Deadline(e.now, e.now+1) == e.now {
			t.Error("the core is busy with a destination whose port is full")
		}
		if e.tx.transmit() != 3 || e.Deadline(e.now, e.now+1) != e.now {
			t.Error("the core sleeps although packets to itself wait")
		}
	})
}

// More packets to the core itself than one iteration receives are left: it goes on at once.
func TestRunWithLoopbackLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoopback(t, 1)
		l.e.rx.loopback.rounds = LoopbackRounds
		var all []*QP
		for range loopbackFew + 1 {
			x := l.connect(verbs.RC, rocev2.PMTU1024, 2)
			all = append(all, l.e.qps.Lookup(x.q.Attr().DestQPN))
		}
		for l.e.iterate() != 0 {
		}
		for _, x := range l.qps { // of each, the first packet of two: its ACK is delayed
			l.post(x, verbs.OpWrite, 2048)
		}
		l.e.tx.flushDirty()
		l.e.tx.transmit()
		l.transfer()
		for i, p := range l.link.packets {
			if i%2 == 0 {
				l.e.rx.frame(p.b, p.meta, true)
			}
		}
		l.e.tx.flushDirty()
		time.Sleep(time.Millisecond)
		l.e.Begin(testNow())
		for _, y := range all {
			if at := y.deadline(); at == 0 || at > l.e.now {
				t.Fatalf("deadline %d at %d: this shows nothing", at, l.e.now)
			}
		}
		if n := l.e.Run(false); l.e.rx.loopback.count <= loopbackFew || n == 0 {
			t.Errorf("%d packets wait, and Run has done %d things", l.e.rx.loopback.count, n)
		}
	})
}
