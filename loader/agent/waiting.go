// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
)

// Destinations are evaluated when they have traffic. One whose sender is blocked,
// because all it may have in the pacer waits there, has none until the next packet
// leaves: at 100 kbit/s that are 90 ms for one of a kilobyte, and a sender that waits
// for half of 64 of them hears nothing of a new rate for seconds. So where packets wait
// in the pacer, the destination is evaluated all the same, without a sample.
type waiters struct {
	until map[bpf.DestKey]uint64 // when the pacer is empty, monotonic ns
	keys  []bpf.DestKey
}

// shortWait is not worth it: the next turn finds the packets gone.
const shortWait = uint64(2 * minTick)

// note keeps in mind whether packets of a destination wait, by a snapshot that nothing
// has changed yet.
func (w *waiters) note(slot *bpf.ExchangeSlot, now uint64) {
	if empty := slot.Regs.NextTxNs; empty > now+shortWait && empty < now+uint64(time.Minute) {
		if w.until == nil {
			w.until = map[bpf.DestKey]uint64{}
		}
		w.until[slot.Key] = empty
	} else if w.until != nil {
		delete(w.until, slot.Key)
	}
}

// evaluateWaiting evaluates those that this turn, which began at now, has not.
func (a *Agent) evaluateWaiting(now uint64) (total int, err error) {
	w := &a.waiting
	w.keys = w.keys[:0]
	for key, empty := range w.until {
		if empty <= now {
			delete(w.until, key)
			continue
		}
		w.keys = append(w.keys, key)
	}
	params := *bpf.ParamsAs[fourcase.Params](&a.cfg.Policy)
	for keys := w.keys; len(keys) > 0; {
		n := min(len(keys), len(a.x.Slots))
		for i, key := range keys[:n] {
			a.x.Slots[i].Key = key
		}
		keys = keys[n:]
		if err := a.x.Read(n); err != nil {
			return total, err
		}
		changed := false
		for i := range a.x.Slots[:n] {
			slot := &a.x.Slots[i]
			slot.Op = 0
			if slot.Found == 0 {
				delete(w.until, slot.Key)
				continue
			}
			w.note(slot, now)
			withoutSample(&slot.Regs)
			a.resync(slot) // the model ends at a second, a class may hold more
			a.decide(slot, &params, now)
			changed = changed || slot.Op != 0
		}
		if changed {
			if err := a.x.Apply(n); err != nil {
				return total, err
			}
		}
		total += n
	}
	return total, nil
}

// withoutSample leaves what the window holds to the evaluation that takes it, and says
// only that packets wait.
func withoutSample(d *bpf.DestRegs) {
	d.WinTxNs, d.WinRxNs, d.WinRttNs = bpf.NoSample, bpf.NoSample, bpf.NoSample
	d.WinSamples, d.WinCe, d.WinLoss, d.WinRnr, d.WinPaced = 0, 0, 0, 0, 1
}
