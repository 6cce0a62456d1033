// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"log/slog"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
)

func TestRecentlyActive(t *testing.T) {
	var r recentlyActive
	now := uint64(1000 * second)
	see := func(n byte, after uint64, want bool) {
		t.Helper()
		if now += after; r.note(keyN(n), now) != want {
			t.Errorf("destination %d, %v later: recently active %v, want %v", n, after, !want, want)
		}
	}
	see(1, 0, false)
	see(2, 1, false)
	see(1, activeSpan-2, true)
	see(1, activeSpan, true) // 2 was last seen in the span before
	see(2, activeSpan/2, true)
	if n := r.count(); n != 2 {
		t.Errorf("%d are recently active, want 2", n)
	}
	see(1, 2*activeSpan, false)
	see(2, 3, false)
	see(3, 5*activeSpan, false)
	see(1, activeSpan, false)
	see(3, 1, true)
	if n := r.count(); n != 2 {
		t.Errorf("%d are recently active, want 2", n)
	}
}

// The clock of a card starts at 0 with the card.
func TestRecentlyActiveOnAYoungClock(t *testing.T) {
	var r recentlyActive
	if r.note(keyN(1), 5) || !r.note(keyN(1), 6) {
		t.Error("a destination is active before it was noted, or not active afterwards")
	}
}

// A destination that was idle for some seconds starts with its share of the link, or with its
// rate if that is higher. One to which data was sent all the time keeps its rate.
func TestRestartIdle(t *testing.T) {
	const idle = 5 * second
	for name, c := range map[string]struct {
		rate, initial uint64
		always        bool // the destination had traffic in each period
		others        int
		want          uint64
	}{
		"alone":                {rate: 10e6, want: 1e9},
		"one of four":          {rate: 10e6, others: 3, want: 250e6},
		"it had more":          {rate: 600e6, others: 3, want: 600e6},
		"it was not idle":      {rate: 10e6, always: true, want: 10e6},
		"somebody knew better": {rate: 10e6, initial: 50e6, want: 50e6},
	} {
		cfg := &bpf.Config{LinkRateBps: 1e9}
		l := New(Options{Config: cfg})
		p := fourcase.DefaultParams(1e9)
		p.InitialRateBps = c.initial
		now := uint64(1000 * second)
		slot := &bpf.AgentSlot{Key: keyN(1)}
		r := bpf.PolicyAs[fourcase.Regs](&slot.Regs.Policy)
		*r = fourcase.Regs{RateBps: c.rate, Decisions: 9, DecidedNs: now, PeriodNs: 10e6}
		if c.always {
			l.recentlyActive.note(slot.Key, now+idle-activeSpan/2)
		}
		for i := range c.others {
			l.recentlyActive.note(keyN(byte(10+i)), now+idle)
		}
		st := stepOf(slot)
		if !l.recentlyActive.note(slot.Key, now+idle) {
			l.restartIdle(&st, &p, now+idle)
		}
		if st.policy.RateBps != c.want {
			t.Errorf("%s: %d, want %d", name, st.policy.RateBps, c.want)
		}
	}
}

// A peer that only sends to this host does not count for the even share. Data to it starts at
// the even share later.
func TestReceiverIsNotBusy(t *testing.T) {
	l := New(Options{Config: &bpf.Config{LinkRateBps: 1e9}, Log: slog.New(slog.DiscardHandler)})
	p := fourcase.DefaultParams(1e9)
	now := 1000 * second
	slots := []bpf.AgentSlot{{Key: keyN(1), Found: 1}}
	slot := &slots[0]
	r := bpf.PolicyAs[fourcase.Regs](&slot.Regs.Policy)
	*r = fourcase.Regs{RateBps: 10e6, Decisions: 9, DecidedNs: now, PeriodNs: 10e6}
	slot.Regs.LastTxNs = now
	for range 1000 { // 5 s in which the peer sends
		now += uint64(minTick)
		slot.Regs.RxPackets++
		l.evaluateSlots(slots, &p, true, now, now)
	}
	if n := len(l.recentlyActive.now) + len(l.recentlyActive.before); n > 1 {
		t.Errorf("%d destinations are recently active", n)
	}
	slot.Regs.LastTxNs, slot.Regs.TxPackets = now, 1
	if l.evaluateSlots(slots, &p, true, now, now); r.RateBps != 1e9 {
		t.Errorf("it starts with %d bit/s", r.RateBps)
	}
}

// A new destination starts at the even share among those with data and itself. Idle destinations do not
// count, whether they were never sent to or have stopped.
func TestStartAmongIdle(t *testing.T) {
	p := play(1e9, 1e9/200, fourcase.ModeRobust, 200)
	for _, d := range p.dests {
		d.stack = 1e9
	}
	p.ticks(10)
	p.l.EvenShare(p.now)
	if got := p.l.cfg.InitialRateBps; got != 1_000_000_000/201 {
		t.Errorf("a new destination starts at %d bit/s among 200 with data, want %d", got, 1_000_000_000/201)
	}
	for _, d := range p.dests {
		d.stack = 0
	}
	p.now += 2 * second
	p.l.EvenShare(p.now)
	if got := p.l.cfg.InitialRateBps; got != 1e9 {
		t.Errorf("a new destination starts at %d bit/s among 200 idle ones, want the link's rate", got)
	}
}

// An entry that was made long before its first data, for a node of the node file for example, has its share
// of the link in the first evaluation with data.
func TestFirstDataOfAnOldEntry(t *testing.T) {
	for mode, want := range map[fourcase.Mode]uint64{fourcase.ModeRobust: 1e9 / 2, fourcase.ModeFixed: 1e9 / 200} {
		p := play(1e9, 1e9/200, mode, 200)
		p.dests[7].stack, p.dests[8].stack = 1e9, 1e9
		p.ticks(2)
		for _, d := range p.dests[7:9] {
			if got := d.regs.RateBps; !near(got, want) {
				t.Errorf("mode %v: %d bit/s, want %d", mode, got, want)
			}
		}
	}
}
