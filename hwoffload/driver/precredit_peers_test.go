// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Without pre-credit at one end, all frames are those of cards that have none at all.
func TestPreCreditOff(t *testing.T) {
	run := func(set func(w *world)) (frames []string) { // without keys, which are random
		w := newCreditNodes(t, 2)
		set(w)
		w.trace(func(e *creditEvent) bool {
			h := e.packet.BTH()
			frames = append(frames, fmt.Sprint(e.at, e.from, e.op, h.DestQP(), h.PSN(), h.AckReq(), e.bytes, e.stamp))
			return false
		})
		a, b := w.pair(w.side[0], w.side[1], rocev2.PMTU1024)
		a.dest(b.side).SetRateBps(1_000_000_000)
		for _, op := range []verbs.Op{verbs.OpWrite, verbs.OpRead, verbs.OpWrite} {
			a.start(op)
			b.start(op)
			a.poll(1)
			b.poll(1)
		}
		w.quiet()
		return frames
	}
	plain := run(func(*world) {})
	for name, set := range map[string]func(w *world){
		"the peer does not understand": func(w *world) {
			w.side[0].enable(creditConfig(creditBudget))
			d := w.side[0].dest(w.side[1])
			d.SetCapsWord(d.CapsWord().WithCaps(capStamp))
		},
		"disabled again": func(w *world) {
			w.side[0].enable(creditConfig(creditBudget))
			if err := driver.DisablePreCredit(w.side[0].card); err != nil {
				t.Fatal(err)
			}
		},
	} {
		if got := run(set); !slices.Equal(got, plain) {
			t.Errorf("%s: %d frames, want the same %d as without pre-credit", name, len(got), len(plain))
		}
	}
}

// A card that uses pre-credit works with one that ignores its messages: they are sent a few times,
// and data leaves as without pre-credit.
func TestPreCreditIgnored(t *testing.T) {
	w := newCreditNodes(t, 2)
	w.side[0].enable(creditConfig(creditBudget))
	a, b := w.pair(w.side[0], w.side[1], rocev2.PMTU1024)
	for range 5 {
		data := a.fill(0, paceBytes, 1)
		a.send(paceBytes)
		b.send(10)
		a.poll(1)
		b.poll(1)
		b.wants(0, data, "write")
	}
	w.quiet()
	if c := a.credits(); c.Used() != 0 || c.GrantsSent() == 0 || c.GrantsSent() > 50 || a.senders().Outstanding != 0 {
		t.Errorf("%d bytes used, %d grants sent", c.Used(), c.GrantsSent())
	}
	a.conserved(creditBudget)

	// When it understands them at last, its own grant shows that, and it gets one.
	w.side[1].enable(creditConfig(creditBudget))
	w.after(6 * creditDelay)
	if l := a.senders().List; len(l) != 1 || l[0].Outstanding == 0 {
		t.Errorf("the list is %+v", l)
	}
}

// A grant shows that its sender understands pre-credit, before its capability is in the table.
func TestPreCreditImplied(t *testing.T) {
	w := newCreditNodes(t, 2)
	d := w.side[0].dest(w.side[1])
	d.SetCapsWord(d.CapsWord().WithCaps(capStamp))
	for _, s := range w.side {
		s.enable(creditConfig(creditBudget))
	}
	a, b := w.pair(w.side[0], w.side[1], rocev2.PMTU1024)
	w.after(6 * creditDelay)
	a.send(3000)
	b.send(3000)
	a.poll(1)
	b.poll(1)
	if a.credits().Used() != 3000 || b.credits().Used() != 3000 {
		t.Errorf("%d and %d bytes used", a.credits().Used(), b.credits().Used())
	}
	// A packet with the wrong token shows nothing, and grants nothing.
	w = newCreditNodes(t, 2)
	w.side[0].dest(w.side[1]).SetRxToken(5)
	for _, s := range w.side {
		s.enable(creditConfig(creditBudget))
	}
	a, _ = w.pair(w.side[0], w.side[1], rocev2.PMTU1024)
	w.after(6 * creditDelay)
	a.send(3000)
	a.poll(1)
	if a.credits().Used() != 0 || a.credits().Ignored() == 0 {
		t.Errorf("wrong token: %d bytes used, %d messages ignored", a.credits().Used(), a.credits().Ignored())
	}
}

// While it is in use, pre-credit can be disabled, and enabled with other parameters.
func TestPreCreditDisable(t *testing.T) {
	w, a, b := creditPair(t)
	w.after(4 * creditDelay)
	a.send(paceBytes)
	w.after(creditDelay)
	if err := driver.DisablePreCredit(b.card); err != nil {
		t.Fatal(err)
	}
	a.poll(1)
	w.after(10 * creditDelay)
	if on, err := driver.PreCreditActive(b.card); on || err != nil || len(b.senders().List) != 0 || b.credits().GrantsSent() < 2 {
		t.Errorf("active %v (%v), list %+v, %d grants", on, err, b.senders(), b.credits().GrantsSent())
	}
	used := a.credits().Used()
	a.send(5000)
	a.poll(1)
	if a.credits().Used() != used {
		t.Errorf("%d bytes leave on pre-credit that was recalled", a.credits().Used()-used)
	}
	b.enable(creditConfig(creditBudget / 2))
	w.after(4 * creditDelay)
	a.send(5000)
	a.poll(1)
	if a.credits().Used() != used+5000 {
		t.Errorf("%d bytes leave on pre-credit after it was enabled again", a.credits().Used()-used)
	}
	b.conserved(creditBudget / 2)
}

// Copies of packets, and packets that arrive out of order, do not take what is still in flight off
// the budget.
func TestPreCreditCopies(t *testing.T) {
	w, a, b := creditPair(t)
	w.after(4 * creditDelay)
	a.send(4 * creditPacket)
	var frames [][]byte
	buf := make([]byte, card.FrameLen)
	for now := w.net.Now(); ; {
		_, n, ok := a.m.NextFrame(now, buf)
		if !ok {
			break
		}
		frames = append(frames, slices.Clone(buf[:n]))
	}
	if len(frames) != 4 || a.credits().Used() != 4*creditPacket {
		t.Fatalf("%d frames, %d bytes on pre-credit", len(frames), a.credits().Used())
	}
	share := creditConfig(creditBudget).Receiver.ShareBytes
	for i, step := range []struct{ frame, delivered uint32 }{{0, 1}, {0, 1}, {2, 1}, {2, 1}, {3, 1}, {3, 1}, {1, 2}, {1, 2}} {
		b.m.Deliver(0, frames[step.frame], w.net.Now())
		l := b.senders()
		if delivered := b.credits().Delivered(); delivered != uint64(step.delivered*creditPacket) {
			t.Errorf("step %d: %d bytes delivered, want %d", i, delivered, step.delivered*creditPacket)
		}
		if l.Outstanding < share-step.delivered*creditPacket {
			t.Errorf("step %d: %d bytes outstanding of %d, and %d packets may still arrive", i, l.Outstanding, share, 4-step.delivered)
		}
	}
	a.poll(1)
	w.after(second / 100)
	if b.credits().Lost() != 2*creditPacket {
		t.Errorf("%d bytes lost, want the two packets that were dropped", b.credits().Lost())
	}
	b.conserved(creditBudget)
}

// Models that run by themselves use pre-credit too.
func TestPreCreditRunning(t *testing.T) {
	w := newCreditNodes(t, 2)
	begin := time.Now()
	w.clock = func() uint64 { return uint64(time.Since(begin)) }
	config := creditConfig(creditBudget)
	config.Receiver.DelayNs = int64(time.Minute) // of a busy machine
	for _, s := range w.side {
		s.enable(config)
	}
	a, b := w.pair(w.side[0], w.side[1], rocev2.PMTU1024)
	var left, right [regs.PortsCount]card.Wire
	left[0], right[0] = card.Cable(256)
	runs := []*card.Running{card.Start(a.m, left), card.Start(b.m, right)}
	testkit.Eventually(t, "both have sent on pre-credit", func() error {
		for _, e := range []*endpoint{a, b} {
			data := e.fill(0, paceBytes, uint64(time.Now().UnixNano()))
			e.send(paceBytes)
			wait(t, e)
			e.peer.wants(0, data, "write")
		}
		if a.credits().Used() == 0 || b.credits().Used() == 0 {
			return fmt.Errorf("%d grants", b.credits().GrantsSent())
		}
		return nil
	})
	for _, r := range runs {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	a.conserved(creditBudget) // nothing changes any more
	b.conserved(creditBudget)
}
