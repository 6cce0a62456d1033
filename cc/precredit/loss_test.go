// SPDX-License-Identifier: Apache-2.0

package precredit

import "testing"

// A loss is found though packets keep coming from behind it.
func TestLossIsFoundUnderTraffic(t *testing.T) {
	w := newWire(t, testParams(40, 40, 10))
	w.r.NewFlow(0, 1)
	w.pump(0)
	w.account(1).Spend(0, 10) // lost
	for now := int64(0); now <= 3*ms; now += 10 * us {
		if !w.data(now, 1, 10) {
			t.Fatal("no pre-credit")
		}
		w.r.Expire(now)
		w.pump(now)
	}
	if got := w.r.Stats().Lost; got != 10 {
		t.Errorf("%d bytes found lost, want 10", got)
	}
	if got := w.account(1).Usable(3 * ms); got != 40 {
		t.Errorf("usable %d, want the whole share", got)
	}
}

// A packet that was overtaken and still arrives is no loss; what is in flight by then
// must not be taken for it.
func TestOvertaken(t *testing.T) {
	w := newWire(t, testParams(40, 40, 10))
	a := w.account(1)
	w.r.NewFlow(0, 1)
	w.pump(0)
	late, _ := a.Spend(0, 10)
	w.data(0, 1, 10) // overtakes it
	w.r.Arrive(us, 1, 10, late)
	w.r.DstScheduleCredit(us, 1, 10)
	a.Spend(us, 10) // in flight
	w.data(us, 1, 10)
	w.r.Expire(ms) // a delay after the first gap was seen
	if st := w.r.Stats(); st.Lost != 0 {
		t.Errorf("%d bytes taken for lost", st.Lost)
	}
	w.r.Expire(2 * ms)
	if st := w.r.Stats(); st.Lost != 10 {
		t.Errorf("%d bytes lost, want the 10 that never came", st.Lost)
	}
}

// What was given up in a return that got lost comes with the next one.
func TestLostReturn(t *testing.T) {
	w := newWire(t, testParams(40, 40, 10))
	a := w.account(1)
	w.r.NewFlow(0, 1)
	w.pump(0)
	w.data(0, 1, 10)
	if _, send := a.GiveUp(); !send { // lost
		t.Fatal("nothing to tell")
	}
	if a.Usable(0) != 0 || w.r.Outstanding() != 40 {
		t.Fatalf("usable %d, outstanding %d", a.Usable(0), w.r.Outstanding())
	}
	m, send := a.Report() // a new flow finds nothing
	if !send {
		t.Fatal("no report")
	}
	w.r.Return(us, 1, m)
	w.pump(us)
	if a.Usable(us) != 40 || w.r.Outstanding() != 40 || w.r.Stats().Void != 40 {
		t.Errorf("usable %d, outstanding %d, %+v", a.Usable(us), w.r.Outstanding(), w.r.Stats())
	}
}

// Totals that cannot be are not believed: not more sent and given up than allowed.
func TestLies(t *testing.T) {
	w := newWire(t, testParams(100, 40, 10))
	w.r.NewFlow(0, 1)
	w.pump(0)
	w.data(0, 1, 10)
	p := *w.r.peers[1]
	w.r.Arrive(0, 1, 1000, Credit{1000, p.seq})
	w.r.Arrive(0, 1, 1000, Credit{p.seen - 1, p.seq})
	w.r.Return(0, 1, Return{Epoch: p.epoch, Limit: p.limit, Sent: 60, Void: 60, Seq: p.seq})
	w.r.Return(0, 1, Return{Epoch: p.epoch, Limit: p.limit, Sent: 10, Void: 1 << 31, Seq: p.seq})
	w.r.Return(0, 1, Return{Epoch: p.epoch + 1, Unknown: true})
	w.r.Return(0, 2, Return{})
	if got := *w.r.peers[1]; got != p || w.r.Outstanding() != 40 {
		t.Errorf("%+v\nwas %+v", got, p)
	}
}
