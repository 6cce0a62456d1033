// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
)

func TestSampleOf(t *testing.T) {
	window := func(change func(*bpf.DestRegs)) *bpf.DestRegs {
		d := &bpf.DestRegs{TxPackets: 9, WinPaced: 1, WinDue: 1, WinTxNs: bpf.NoSample, WinRxNs: bpf.NoSample, WinRttNs: bpf.NoSample}
		change(d)
		return d
	}
	for _, c := range []struct {
		name string
		d    *bpf.DestRegs
		want fourcase.Sample
	}{
		{"nothing came", window(func(*bpf.DestRegs) {}), fourcase.Sample{Sent: 9}},
		{"echoes", window(func(d *bpf.DestRegs) {
			d.WinSamples, d.WinTxNs, d.WinRxNs, d.WinRttNs, d.TurnaroundNs = 3, -5, 20, 15, 2
		}),
			fourcase.Sample{Sent: 9, Samples: 3, Tx: -5, Rx: 20, RTT: 15, Turn: 2}},
		{"a peer that echoes nothing", window(func(d *bpf.DestRegs) { d.WinRttNs = 40 }), fourcase.Sample{Sent: 9, Samples: 1, RTT: 40}},
		{"nothing waited in the pacer", window(func(d *bpf.DestRegs) { d.WinPaced = 0 }), fourcase.Sample{Sent: 9, AppLimited: true}},
		{"before any data", window(func(d *bpf.DestRegs) { d.TxPackets = 0 }), fourcase.Sample{Idle: true}},
		{"nothing can answer", window(func(d *bpf.DestRegs) { d.WinDue = 0 }), fourcase.Sample{Sent: 9, OpenLoop: true}},
		{"loss and marks", window(func(d *bpf.DestRegs) { d.WinLoss, d.WinCe = 2, 4 }), fourcase.Sample{Sent: 9, Loss: 2, CE: 4}},
		{"sent again is not sent", window(func(d *bpf.DestRegs) { d.PsnRegressions, d.WinLoss = 4, 1 }), fourcase.Sample{Sent: 5, Loss: 1}},
		{"a receiver that is not ready loses nothing", window(func(d *bpf.DestRegs) { d.WinLoss, d.WinRnr = 2, 1 }), fourcase.Sample{Sent: 9}},
	} {
		if got := SampleOf(c.d, false); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	none := window(func(d *bpf.DestRegs) { d.WinPaced = 0 })
	if got, want := SampleOf(none, true), (fourcase.Sample{Sent: 9}); got != want {
		t.Errorf("none was sent, but some still wait: %+v, want %+v", got, want)
	}
}

// One pause for each destination: when the baseline is taken from a sample of both
// directions that data may have delayed.
func TestFirstLoaded(t *testing.T) {
	const none, rtt, both = 0, fourcase.StateBase | fourcase.StateRTT, fourcase.StateBase
	for _, c := range []struct {
		name          string
		before, after uint8
		idle, want    bool
	}{
		{"nothing came", none, none, false, false},
		{"idle", none, both, true, false},
		{"data came first", none, both, false, true},
		{"round trips only", none, rtt, false, false},
		{"round trips, then stamps", rtt, both, false, true},
		{"known", both, both, false, false},
	} {
		if got := firstLoaded(c.before, c.after, &fourcase.Sample{Idle: c.idle}); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	ps := baselinePauses{all: map[bpf.DestKey]*baselinePause{{}: {sent: true, end: 100}}}
	s := &fourcase.Sample{Samples: 1}
	if !ps.answers(bpf.DestKey{}, s, 90) || ps.answers(bpf.DestKey{}, s, 95) {
		t.Error("one window answers the HELLO")
	}
	ps.all[bpf.DestKey{}].answered = false
	if ps.answers(bpf.DestKey{}, s, 101+uint64(pauseAnswer)) {
		t.Error("an echo long after the pause is data's")
	}
}

// The agent's share of a CPU is bounded, however many destinations are active.
func TestPause(t *testing.T) {
	for _, c := range []struct {
		cost time.Duration
		n    int
		want time.Duration
	}{
		{0, 0, idleTick},
		{0, 2, minTick},
		{150 * time.Microsecond, 2, minTick},
		{200 * time.Microsecond, 2, 6 * time.Millisecond},
		{300 * time.Microsecond, 2, 9 * time.Millisecond}, // two changes of an htb class
		{323 * time.Microsecond, 2, 9960 * time.Microsecond},
		{330 * time.Microsecond, 2, 10800 * time.Microsecond},
		{100 * time.Microsecond, 100, 20 * time.Millisecond},
		{time.Millisecond, 1000, 200 * time.Millisecond},
		{time.Millisecond, 2, 91200 * time.Microsecond},
		{time.Hour, 60_000, maxTick},
	} {
		if got := TickPeriod(c.cost, c.n, true); got != c.want {
			t.Errorf("after %v and %d destinations: %v, want %v", c.cost, c.n, got, c.want)
		}
	}
	if got := TickPeriod(0, 2, false); got != idleTick {
		t.Errorf("without an engine: %v, want %v", got, idleTick)
	}
}

// What comes after an evaluation compares with the time at which the tick began, though the
// slots were read later: Evaluated has that time, and who waits in the pacer has had its
// evaluation.
func TestTickHasOneTime(t *testing.T) {
	p := play(1e9, 1e9, fourcase.ModeRobust, 0)
	l, now, params := p.l, p.now, fourcase.DefaultParams(1e9)
	var evaluated []uint64
	l.evaluated = func(_ bpf.DestKey, _ *bpf.DestRegs, at uint64) { evaluated = append(evaluated, at) }
	slot := bpf.AgentSlot{Key: keyN(1), Found: 1}
	slot.Regs.NextTxNs = now + uint64(time.Second)
	l.evaluateSlots([]bpf.AgentSlot{slot}, &params, true, now, now+uint64(time.Millisecond))
	if len(evaluated) != 1 || evaluated[0] != now {
		t.Errorf("evaluated at %d, want %d", evaluated, now)
	}
	if due := l.paceBlocked.due(now); len(due) != 0 {
		t.Errorf("%v is evaluated a second time", due)
	}
}
