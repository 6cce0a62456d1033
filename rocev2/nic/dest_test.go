// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic/pacer"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// pacedEngine has one destination of 1 Mbit/s that has sent 100 kB too much, and a queue
// pair that waits there.
func pacedEngine() (e *engine, d *dest, x *QP) {
	e = &engine{dests: map[netip.Addr]*dest{}, now: 1e9, config: RuntimeConfig{Paced: true}}
	d = &dest{addr: netip.MustParseAddr("10.0.0.2"), pacer: pacer.New(1e6), refs: 1}
	d.timer.Owner = d
	e.dests[d.addr] = d
	x = &QP{typ: verbs.UD, home: d}
	d.consumeTokens(e, 100_000)
	e.enqueue(x)
	e.blockOnPacer(e.ready.Pop())
	d.queued = false
	return e, d, x
}

func ready(e *engine, after qp.Time) bool {
	e.now += after
	e.destTimers.Advance(int64(e.now), e.unblock)
	return !e.ready.Empty()
}

// An answer gives the round trip of a packet that it covers, to the queue pair that sent
// it, once.
func TestProbeCovers(t *testing.T) {
	x, other := new(QP), new(QP)
	for name, c := range map[string]struct {
		qp   *QP
		op   rocev2.Operation
		psn  rocev2.PSN
		want qp.Time
	}{
		"its own":           {x, rocev2.OperationAck, 0xFFFFFE, 50},
		"of packets behind": {x, rocev2.OperationAck, 3, 50},
		"of one before":     {x, rocev2.OperationAck, 0xFFFFFD, 0},
		"of another":        {other, rocev2.OperationAck, 3, 0},
		"a request":         {x, rocev2.OperationSend, 3, 0},
		"a READ's":          {x, rocev2.OperationReadResponse, 0, 50},
	} {
		p := probe{x, 0xFFFFFE, 100}
		if rtt, _ := p.answered(c.qp, c.op, c.psn, 150); rtt != c.want {
			t.Errorf("%s: %v, want %v", name, rtt, c.want)
		} else if again, _ := p.answered(x, rocev2.OperationAck, 0xFFFFFE, 160); (again != 0) != (c.want == 0) {
			t.Errorf("%s: the next answer gives %v", name, again)
		}
	}
}

// A queue pair that goes does not keep the destination from measuring with another.
func TestProbeEndsWithItsQueuePair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoopback(t, 1)
		x, y := l.connect(verbs.RC, rocev2.PMTU1024, 8), l.connect(verbs.RC, rocev2.PMTU1024, 8)
		d := x.dest
		if y.dest != d {
			t.Fatal("two destinations")
		}
		d.probe = probe{x, 3, 100}
		if l.e.unroute(y); d.probe.qp != x {
			t.Errorf("the other's end: %+v", d.probe)
		}
		if l.e.unroute(x); d.probe != (probe{}) {
			t.Errorf("its own end: %+v", d.probe)
		}
	})
}

// What the peer understands does not matter to a queue pair in ERR: nothing is tried
// there, with an error each time.
func TestNegotiateNotInErr(t *testing.T) {
	e := bench(t)
	x := receiver(t, e, verbs.RC)
	x.dest.sack = true
	a := x.q.Attr()
	if e.negotiate(x); !x.selective {
		t.Error("not negotiated in RTR")
	}
	x.dest.sack = false
	a.State = verbs.StateErr
	if err := x.q.Modify(a, verbs.MaskState); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10, func() { e.negotiate(x) }); n != 0 || !x.selective {
		t.Errorf("%v allocations, selective %v", n, x.selective)
	}
}

func TestPaceBlockedUntilReady(t *testing.T) {
	e, d, _ := pacedEngine()
	if e.enqueueDest(d); !e.ready.Empty() || ready(e, 700e6) {
		t.Error("it goes on before the pacer lets it")
	}
	if !ready(e, 200e6) {
		t.Error("it does not go on when the pacer lets it")
	}
}

// A destination whose last address handle is destroyed still has queue pairs of UD in
// line, which have messages for others.
func TestDroppedWhileHeld(t *testing.T) {
	e, d, _ := pacedEngine()
	e.drop(d)
	if !ready(e, 2e6) {
		t.Error("the queue pair waits for ever at a destination that is gone")
	}
}

// After a report that failed, those that wait for an answer are reported again: for as
// often as HELLO may take, or until the pacer lets them go on. Others are not.
func TestReportedAgain(t *testing.T) {
	e := bench(t)
	e.sync.err = errFull
	fresh, held, old, gone := &dest{refs: 1, initialSyncs: initialSyncReports}, &dest{refs: 1, paceBlocked: 1}, &dest{refs: 1, pacer: pacer.New(5)}, &dest{initialSyncs: 5}
	e.sync.dests = []*dest{fresh, held, old, gone}
	e.sync.reports = make([]DestSync, 4)
	for i := range initialSyncReports {
		e.applyReplies()
		if !slices.Equal(e.syncQueue, []*dest{fresh, held}) {
			t.Fatalf("after %d failures %d are listed", i+1, len(e.syncQueue))
		}
		e.syncQueue, fresh.syncQueued, held.syncQueued = nil, false, false
	}
	if e.applyReplies(); !slices.Equal(e.syncQueue, []*dest{held}) {
		t.Errorf("at last %d are listed", len(e.syncQueue))
	}
	if old.pacer.Rate() != 5 || e.count.syncErrors != initialSyncReports+1 {
		t.Errorf("rate %d, %d errors", old.pacer.Rate(), e.count.syncErrors)
	}
}

// Without a rate, or without anybody who looks after rates, nothing waits for what
// was sent at the last one.
func TestUnpacedWhileHeld(t *testing.T) {
	for name, change := range map[string]func(*engine, *DestSync){
		"no rate":  func(_ *engine, r *DestSync) { r.Rate = 0 },
		"no agent": func(e *engine, _ *DestSync) { e.config.Paced = false },
	} {
		e, d, _ := pacedEngine()
		e.sync.dests, e.sync.reports = []*dest{d}, []DestSync{{Addr: d.addr, Rate: d.pacer.Rate()}}
		change(e, &e.sync.reports[0])
		e.applyReplies()
		if !ready(e, 2e6) {
			t.Errorf("%s: it still waits", name)
		}
	}
}

// What a thread misses that runs late is lag while data waits, and nothing while none does:
// the pacer learns it from the destination's queue.
func TestLagOnlyWhileDataWaits(t *testing.T) {
	for _, idle := range []bool{false, true} {
		e := &engine{now: 1e9, config: RuntimeConfig{Paced: true, Burst: 4e6}}
		d := &dest{pacer: pacer.New(10e6)}
		x := &QP{typ: verbs.UD, home: d}
		e.enqueue(x)
		d.consumeTokens(e, 1250)
		if idle {
			d.dequeue()
			e.enqueue(x)
		}
		e.now += 24e6
		if d.consumeTokens(e, 1250); (d.pacer.Lag() == 0) != idle {
			t.Errorf("idle %t: lag %d", idle, d.pacer.Lag())
		}
	}
}
