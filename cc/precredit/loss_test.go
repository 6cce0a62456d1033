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

// What was given up in a return that got lost is settled as lost. When a later return
// repeats the total, it must not come off the budget again: the bytes that are missing
// by then are others, and they are under way.
func TestVoidIsNotSettledTwice(t *testing.T) {
	w := newWire(t, testParams(40, 40, 10))
	a := w.account(1)
	w.r.NewFlow(0, 1)
	w.pump(0)
	w.data(0, 1, 10)
	w.r.Leave(1)
	_, g, _ := w.r.Next(0)
	a.Grant(0, g) // gives up 40; the answer is lost
	w.r.NewFlow(0, 1)
	w.r.Expire(100 * us) // asks again, but no longer to give up
	_, g, _ = w.r.Next(100 * us)
	late, _ := a.Grant(100*us, g)
	w.r.Return(100*us, 1, Return{Epoch: late.Epoch, Limit: late.Limit, Used: late.Used, Seq: late.Seq})
	w.r.Expire(2 * ms) // and settles what the sender has used and not sent
	if w.r.Stats().Lost != 40 {
		t.Fatalf("%+v", w.r.Stats())
	}
	w.pump(2 * ms)
	if a.Usable(2*ms) != 40 {
		t.Fatalf("usable %d", a.Usable(2*ms))
	}
	a.Spend(2*ms, 20) // under way
	m, _ := a.Report()
	w.r.Return(2*ms, 1, m)
	if w.r.Outstanding() != 40 {
		t.Errorf("%d outstanding, but 20 are unused and 20 under way", w.r.Outstanding())
	}
}
