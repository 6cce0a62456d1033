// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
)

func TestWaiters(t *testing.T) {
	const now = uint64(time.Hour)
	var w paceBlocked
	for _, c := range []struct {
		name  string
		empty uint64
		want  bool
	}{
		{"empty long ago", 5, false},
		{"a second of packets", now + 1e9, true},
		{"gone by the next tick", now + uint64(minTick), false},
		{"an entry that says nonsense", 1 << 63, false},
	} {
		said := w.note(keyN(1), c.empty, now)
		if _, got := w.all[keyN(1)]; got != c.want || said != c.want {
			t.Errorf("%s: %t, and it says %t", c.name, got, said)
		}
	}
}

// One is due while it waits, but not in the tick that has evaluated it.
func TestWaitersDue(t *testing.T) {
	var w paceBlocked
	w.note(keyN(1), 1e9, 100)
	for _, c := range []struct {
		now  uint64
		want int
	}{{100, 0}, {200, 1}, {1e9 - 1, 1}, {1e9, 0}, {300, 0}} {
		if got := len(w.due(c.now)); got != c.want {
			t.Errorf("at %d: %d, want %d", c.now, got, c.want)
		}
	}
}

// What the window holds is not taken twice: an evaluation of a destination that waits
// learns that it does, and nothing else.
func TestWithoutSample(t *testing.T) {
	d := &bpf.DestRegs{TxPackets: 9, WinSamples: 3, WinTxNs: 4, WinRxNs: 5, WinRttNs: 9, WinCe: 1, WinLoss: 2, WinRnr: 1, WinDue: 1}
	st := step{regs: d}
	if got, want := st.sample(), (fourcase.Sample{Sent: 9}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if !st.paced() {
		t.Error("its packets wait")
	}
}
