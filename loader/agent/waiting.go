// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/loader"
)

// Destinations are evaluated when they have traffic. One whose sender is blocked,
// because all it may have in the pacer waits there, has none until the next packet
// leaves: at 100 kbit/s that are 90 ms for one of a kilobyte, and a sender that waits
// for half of 64 of them hears nothing of a new rate for seconds. So where packets wait
// in the pacer, the destination is evaluated all the same, without a sample.
type waiters struct {
	all  map[bpf.DestKey]waiter
	keys []bpf.DestKey
}

// waiter is one of them; times are of the monotonic clock.
type waiter struct {
	empty uint64 // when the pacer is
	seen  uint64 // when it was evaluated
}

// shortWait is not worth it: the next turn finds the packets gone.
const shortWait = uint64(2 * idleTick)

// note keeps in mind whether packets of a destination wait for some time, by a snapshot
// that nothing has changed yet, and returns it.
func (w *waiters) note(slot *bpf.ExchangeSlot, now uint64) (waits bool) {
	empty := slot.Regs.NextTxNs
	if waits = empty > now+shortWait && empty < now+uint64(time.Minute); !waits {
		delete(w.all, slot.Key)
		return false
	}
	if w.all == nil {
		w.all = map[bpf.DestKey]waiter{}
	}
	w.all[slot.Key] = waiter{empty, now}
	return true
}

// drop forgets a destination whose entry is gone.
func (w *waiters) drop(key bpf.DestKey) { delete(w.all, key) }

// due are those that the turn which began at now has not evaluated.
func (w *waiters) due(now uint64) []bpf.DestKey {
	w.keys = w.keys[:0]
	for key, x := range w.all {
		switch {
		case x.seen == now:
		case x.empty <= now:
			delete(w.all, key)
		default:
			w.keys = append(w.keys, key)
		}
	}
	return w.keys
}

// evaluateWaiting evaluates those that wait and had no traffic in the turn that began
// at now.
func (a *Agent) evaluateWaiting(now uint64) (total int, err error) {
	w := &a.waiting
	params := *bpf.ParamsAs[fourcase.Params](&a.cfg.Policy)
	for keys := w.due(now); len(keys) > 0; {
		n := min(len(keys), len(a.x.Slots))
		for i, key := range keys[:n] {
			a.x.Slots[i].Key = key
		}
		keys = keys[n:]
		if err := a.x.Read(n); err != nil {
			return total, err
		}
		if a.judge(a.x.Slots[:n], &params, false, now, loader.Monotonic()) {
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
