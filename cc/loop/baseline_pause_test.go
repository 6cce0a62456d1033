// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"log/slog"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
)

// classes is an htb pacer that only keeps rates.
type classes map[uint32]uint64

func (c classes) Backlog(uint32) (uint64, bool, error)         { return 0, true, nil }
func (c classes) SetRate(n uint32, bps uint64) (uint32, error) { c[n] = bps; return n, nil }

// A model that was put right in the same step is when the class is empty, plus or minus: the
// pause for the baseline begins with that in mind.
func TestPauseAfterReconciliation(t *testing.T) {
	const now, ms = uint64(time.Hour), int64(time.Millisecond)
	for _, c := range []struct {
		name      string
		empty, by int64 // the model, from now, and what it is moved by
		wait      int64 // time until data goes on
	}{
		{"not moved", 20 * ms, 0, 20 * ms},
		{"the class holds more", 20 * ms, 3 * ms, 23 * ms},
		{"the class holds less", 20 * ms, -3 * ms, 17 * ms},
		{"the class is empty", 20 * ms, -30 * ms, 0},
	} {
		cfg := &bpf.Config{Pacer: bpf.PacerHTB, LinkRateBps: 1e9}
		*bpf.ParamsAs[fourcase.Params](&cfg.Policy) = fourcase.DefaultParams(1e9)
		rates := classes{}
		l := New(Options{Pacer: rates, Config: cfg, Log: slog.New(slog.DiscardHandler)})
		slot := &bpf.AgentSlot{Key: keyN(1)}
		slot.Regs.NextTxNs, slot.Regs.ClassId = now+uint64(c.empty), 7
		slot.ShiftNs = 99 // of an earlier step
		st := stepOf(slot)
		if c.by != 0 {
			st.shiftNextTx(c.by)
		}
		const inFlight = 10 * int64(time.Millisecond)
		l.startPause(&st, &fourcase.Sample{RTT: inFlight}, now)
		st.store(slot)
		if rates[7] != cfg.Policy.MinRateBps || l.pauses.all[slot.Key] == nil {
			t.Errorf("%s: no pause, class at %d", c.name, rates[7])
			continue
		}
		want := now + uint64(c.wait+inFlight) + uint64(pauseSlack)
		if got := slot.Regs.NextTxNs + uint64(slot.ShiftNs); got != want || slot.Op&bpf.ShiftNextTx == 0 {
			t.Errorf("%s: data goes on after %v, want %v", c.name, time.Duration(got-now), time.Duration(want-now))
		}
	}
}
