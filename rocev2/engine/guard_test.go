// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// guarded returns an engine with one destination, whose table's entry is that of a peer that stamps.
func guarded(entry DestSync) (*Core, *dest) {
	e := newCore(1500, RuntimeConfig{})
	e.Begin(1e9)
	d := &dest{addr: netip.MustParseAddr("10.0.0.2"), refs: 1}
	d.timer.Owner = d
	e.dests.rails[0].dests[d.addr] = d
	e.dests.applyEntry(d, &entry)
	return e, d
}

// Which packets need the token.
func TestGuardOn(t *testing.T) {
	aware := DestSync{Known: true, Stamps: true}
	for name, c := range map[string]struct {
		entry  DestSync
		proven qp.Time
		length int
		want   bool
	}{
		"it has sent no stamp yet":             {aware, 0, 100, false},
		"it has":                               {aware, 5, 100, true},
		"before this destination":              {DestSync{Known: true, Stamps: true, Proven: true}, 0, 100, true},
		"the packet had room":                  {aware, 5, 1500 - rocev2.StampLen, true},
		"the packet had none":                  {aware, 5, 1500 - rocev2.StampLen + 4, false},
		"the peer has a smaller MTU":           {DestSync{Known: true, Stamps: true, Room: 1200}, 5, 1204, false},
		"shorter than that":                    {DestSync{Known: true, Stamps: true, Room: 1200}, 5, 1200, true},
		"it has said that it does not stamp":   {DestSync{Known: true, Stamps: true, Bare: true}, 5, 100, false},
		"the table has no entry, being full":   {DestSync{}, 0, 100, false},
		"it has said so long before, and went": {DestSync{Known: true, Stamps: true, Bare: true, Proven: true}, 0, 100, false},
	} {
		_, d := guarded(c.entry)
		d.guard.provenAt = max(d.guard.provenAt, c.proven)
		if got := d.guard.on(c.length); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A dropped packet causes one question. It is repeated, and a peer that never answers counts as silent if
// nothing of it is proven.
func TestQuestion(t *testing.T) {
	aware := DestSync{Known: true, Stamps: true, Proven: true}
	step := func(e *Core, d *dest, entry DestSync) (asked bool) {
		asked = d.report.Ask
		d.report = DestSync{}
		e.now += questionPeriod
		e.dests.applyEntry(d, &entry)
		return asked
	}
	for _, proven := range []bool{false, true} {
		e, d := guarded(aware)
		for range 100 {
			e.dests.dropUnproven(d, unprovenData)
		}
		asked := 0
		for range 3 * questionLimit {
			if proven {
				d.guard.provenAt = e.now
			}
			if step(e, d, aware) {
				asked++
			}
		}
		if asked != questionLimit || e.count.questions != questionLimit || e.count.unproven[unprovenData] != 100 {
			t.Errorf("%d questions, %d counted", asked, e.count.questions)
		}
		if d.guard.silent == proven || d.guard.on(100) != proven {
			t.Errorf("proven %v: %+v", proven, d.guard)
		}
	}
}

// An answer ends the question. The next one may come after a while only.
func TestAnswer(t *testing.T) {
	aware := DestSync{Known: true, Stamps: true, Proven: true}
	e, d := guarded(aware)
	e.dests.dropUnproven(d, unprovenAck)
	answered := aware
	answered.Answers, answered.Room = 2, 1200
	e.dests.applyEntry(d, &answered)
	if d.guard.question.open || !d.guard.on(1200) || d.guard.on(1204) {
		t.Errorf("%+v", d.guard)
	}
	e.now += answerHolds - 1
	if e.dests.dropUnproven(d, unprovenAck); e.count.questions != 1 {
		t.Error("asked again at once")
	}
	e.now++
	if e.dests.dropUnproven(d, unprovenAck); e.count.questions != 2 {
		t.Error("never asked again")
	}
	// It stamps nothing, and then it does again.
	answered.Answers, answered.Bare = 0, true
	e.dests.applyEntry(d, &answered)
	if d.guard.on(100) {
		t.Error("it has said that it stamps nothing")
	}
	e.now += stampsAgain
	if e.dests.applyEntry(d, &answered); e.count.questions != 2 {
		t.Error("asked, and nothing of it is proven")
	}
	d.guard.provenAt = e.now
	if e.dests.applyEntry(d, &answered); e.count.questions != 3 {
		t.Error("it stamps again, and is not asked")
	}
	answered.Answers, answered.Bare = 2, false
	if e.dests.applyEntry(d, &answered); !d.guard.on(100) {
		t.Errorf("%+v", d.guard)
	}
}

// The first packets to a destination wait for the token, for answerPatience at most.
func TestFirstPacketsWait(t *testing.T) {
	src := netip.MustParseAddr("10.0.0.1")
	for _, known := range []bool{false, true} {
		e, d := guarded(DestSync{})
		d.tokens.of(src)
		d.waitsUntil = e.now + answerPatience
		if d.mayLeave(e) {
			t.Fatal("the first packet leaves before there is a token")
		}
		e.tx.blockOnPacer(d)
		if d.report.Waited != 0 {
			t.Error("it counts as a wait for the pacer")
		}
		e.now += answerPatience / 2
		e.dests.applyEntry(d, &DestSync{Known: true, Stamps: known, Src: src, Token: 7, NoToken: !known})
		if d.mayLeave(e) != known {
			t.Errorf("token %v: it leaves: %v", known, !known)
		}
		if e.dests.timers.Advance(int64(e.now)+2*int64(tick), e.tx.unblock); (d.paceBlocked == 0) != known {
			t.Errorf("token %v: the reply of the table ends the wait: %v", known, !known)
		}
		if e.now += answerPatience; !d.mayLeave(e) {
			t.Error("it waits for ever")
		}
		if e.tx.unblock(d); d.report.WaitedTime > answerPatience {
			t.Errorf("waited %d ns for the pacer", d.report.WaitedTime)
		}
	}
}

// The NAK with which a queue pair fails waits for the token, for answerPatience at most: nothing repeats it. The
// queue pair has no path here, so a NAK that leaves counts as lost.
func TestLastNAKWaits(t *testing.T) {
	for _, known := range []bool{false, true} {
		e := bench(t)
		x := receiving(t, e, verbs.RC)
		e.Begin(testNow())
		x.dest.waitsUntil = e.now + answerPatience
		d := rocev2.Datagram{Src: peer, Dst: us, Opcode: rocev2.RCWriteOnly, DestQP: x.num, AckReq: true, RKey: 7, DMALen: 4, Payload: []byte("data")}
		b, err := d.AppendTo([]byte{12: 8, 13: 0})
		if err != nil {
			t.Fatal(err)
		}
		e.rx.frame(b, Meta{}, false)
		if e.tx.flushDirty(); x.q.State() != verbs.StateErr || e.count.txNoPath != 0 {
			t.Fatalf("%v: %d packets have left before there is a token", x.q.State(), e.count.txNoPath)
		}
		if wait := e.Deadline(e.now, e.now+1e9) - e.now; wait > answerPatience/16 {
			t.Errorf("nothing happens for %d ns", wait)
		}
		if known {
			e.dests.applyEntry(x.dest, &DestSync{Known: true, Stamps: true})
		} else {
			e.now += answerPatience
		}
		if e.tx.flushDirty(); e.count.txNoPath != 1 || len(e.tx.dirty) != 0 {
			t.Errorf("token %v: %d packets have left, want the NAK", known, e.count.txNoPath)
		}
	}
}
