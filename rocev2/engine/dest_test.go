// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// pacedEngine has one destination of 1 Mbit/s that has sent 100 kB too much, and a queue
// pair that waits there.
func pacedEngine() (e *Core, d *dest, x *QP) {
	e = newCore(1500, RuntimeConfig{Paced: true})
	e.Begin(1e9)
	d = &dest{addr: netip.MustParseAddr("10.0.0.2"), pacer: newBucket(1e6), refs: 1}
	d.timer.Owner = d
	e.dests.rails[0].dests[d.addr] = d
	x = queuePairAt(d)
	x.typ = verbs.UD
	d.consumeTokens(e, 100_000, false)
	e.tx.enqueue(&x.egress)
	e.tx.blockOnPacer(e.tx.ready.Pop())
	d.queued = false
	return e, d, x
}

func ready(e *Core, after qp.Time) bool {
	e.now += after
	e.dests.timers.Advance(int64(e.now), e.tx.unblock)
	return !e.tx.ready.Empty()
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
	x := receiving(t, e, verbs.RC)
	x.dest.sack = true
	a := x.q.Attr()
	if e.tx.negotiate(x); !x.selective {
		t.Error("not negotiated in RTR")
	}
	x.dest.sack = false
	a.State = verbs.StateErr
	if err := x.q.Modify(a, verbs.MaskState); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10, func() { e.tx.negotiate(x) }); n != 0 || !x.selective {
		t.Errorf("%v allocations, selective %v", n, x.selective)
	}
}

func TestPaceBlockedUntilReady(t *testing.T) {
	e, d, _ := pacedEngine()
	if e.tx.enqueueDest(d); !e.tx.ready.Empty() || ready(e, 700e6) {
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
	e.dests.drop(d)
	if !ready(e, 2e6) {
		t.Error("the queue pair waits for ever at a destination that is gone")
	}
}

// A report that failed is sent again, together with what was sent since, until it succeeds.
// Reports of the same batch that succeeded are not.
func TestReportedAgain(t *testing.T) {
	e := bench(t)
	ok, old, gone := &dest{refs: 1}, &dest{refs: 1, pacer: newBucket(5)}, &dest{pacer: newBucket(5)}
	old.report = DestSync{Packets: 1, Bytes: 100, Lost: 1, RTT: 8, RTTSent: 80}
	r := e.dests.rails[0]
	r.batch = []*dest{ok, old, gone}
	r.reports = []DestSync{
		{Packets: 7, Rate: 5},
		{Packets: 2, Unstamped: 1, Bytes: 300, Repeated: 1, Lost: 65535, Due: true, Waited: 3, WaitedTime: 4, RTT: 9, RTTSent: 90, CEEchoed: true},
		{Packets: 9},
	}
	e.Replies(0, 1, true)
	if !slices.Equal(e.dests.rails[0].syncQueue, []*dest{old, gone}) || e.count.syncErrors != 1 {
		t.Errorf("%d are queued, %d errors", len(e.dests.rails[0].syncQueue), e.count.syncErrors)
	}
	if r.due != e.now+syncRetry {
		t.Errorf("the next report is due in %v", r.due-e.now)
	}
	want := DestSync{Packets: 3, Unstamped: 1, Bytes: 400, Repeated: 1, Lost: 65535, Due: true, Waited: 3, WaitedTime: 4, RTT: 8, RTTSent: 80, CEEchoed: true}
	if old.report != want {
		t.Errorf("%+v, want %+v", old.report, want)
	}
	if ok.report.Packets != 0 || gone.report.Packets != 9 || ok.pacer.Rate() != 5 || old.pacer.Rate() != 5 {
		t.Errorf("packets %d, %d; rates %d, %d", ok.report.Packets, gone.report.Packets, ok.pacer.Rate(), old.pacer.Rate())
	}
}

// Without a rate, or without anybody who looks after rates, nothing waits for what
// was sent at the last one.
func TestUnpacedWhileHeld(t *testing.T) {
	for name, change := range map[string]func(*Core, *DestSync){
		"no rate":  func(_ *Core, r *DestSync) { r.Rate = 0 },
		"no agent": func(e *Core, _ *DestSync) { e.dests.rails[0].config.Paced = false },
	} {
		e, d, _ := pacedEngine()
		r := e.dests.rails[0]
		r.batch, r.reports = []*dest{d}, []DestSync{{Addr: d.addr, Rate: d.pacer.Rate()}}
		change(e, &r.reports[0])
		e.Replies(0, 1, false)
		if !ready(e, 2e6) {
			t.Errorf("%s: it still waits", name)
		}
	}
}

// What a thread misses that runs late is lag while data waits, and nothing while none does:
// the pacer learns it from the destination's queue.
func TestLagOnlyWhileDataWaits(t *testing.T) {
	for _, idle := range []bool{false, true} {
		e := newCore(1500, RuntimeConfig{Paced: true, Burst: 4e6})
		e.Begin(1e9)
		d := &dest{pacer: newBucket(10e6)}
		x := queuePairAt(d)
		e.tx.enqueue(&x.egress)
		d.consumeTokens(e, 1250, false)
		if idle {
			d.dequeue()
			e.tx.enqueue(&x.egress)
		}
		e.now += 24e6
		if d.consumeTokens(e, 1250, false); (d.pacer.Lag() == 0) != idle {
			t.Errorf("idle %t: lag %d", idle, d.pacer.Lag())
		}
	}
}
