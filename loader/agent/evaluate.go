// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/pacer"
)

// evaluate runs the policy for every destination that had traffic since the last
// evaluation. It returns their number.
func (a *Agent) evaluate(now uint64) (total int, err error) {
	a.reconciler.left = reconcilePerTick
	a.senders.begin(now)
	params := *bpf.ParamsAs[fourcase.Params](&a.cfg.Policy)
	for {
		n, err := a.x.Collect()
		if err != nil {
			return 0, err
		}
		total += n
		if a.evaluateSlots(a.x.Slots[:n], &params, true, now, loader.Monotonic()) {
			if err := a.x.Apply(n); err != nil {
				return 0, err
			}
		}
		if n < len(a.x.Slots) {
			return total, nil
		}
	}
}

// evaluateSlots decides for the destinations of some slots, and reports whether there is
// something to write back. sampled: the slots have the samples of a window. now is the start
// of the tick; all comparisons between ticks use it. read is the time at which the slots
// were read: packets whose departure is before it do not wait.
func (a *Agent) evaluateSlots(slots []bpf.AgentSlot, params *fourcase.Params, sampled bool, now, read uint64) (changed bool) {
	// All senders come first, so that a new one has its share of the link in this evaluation.
	steps := a.steps[:0]
	for i := range slots {
		slot := &slots[i]
		st := stepOf(slot)
		st.sampled = sampled
		if slot.Found != 0 {
			st.sender = a.senders.note(st.key, st.regs, a.cfg.Config, read)
		}
		steps = append(steps, st)
	}
	a.steps = steps
	a.senders.shareLink(a.cfg.LinkRateBps, params)
	for i := range slots {
		slot, st := &slots[i], &steps[i]
		slot.Op = 0
		if slot.Found == 0 {
			a.paceBlocked.drop(slot.Key)
			continue
		}
		st.waits = a.paceBlocked.note(st.key, st.regs.NextTxNs, now)
		if sampled {
			a.echoes.note(st.key, st.regs, now)
		}
		a.reconcileBacklog(st) // also where the model is at its limit and the class has a larger backlog
		a.decide(st, params, now)
		changed = st.store(slot) || changed
	}
	return changed
}

// decide makes one step of the policy.
func (a *Agent) decide(st *step, params *fourcase.Params, now uint64) {
	share := params.MaxRateBps
	if !a.prioritizes() {
		share = a.senders.even.Share(params.MaxRateBps)
	}
	if a.sends(st, now) {
		a.restartIdle(st, params, now)
	}
	bounded := st.sender.bounded(&st.policy, params, share)
	sample := st.sample()
	sample.ShareBps = a.share(params)
	sample.Idle = sample.Idle || a.pauses.answers(st.key, &sample, now)
	st.sender.decided(fourcase.Step(&st.policy, &bounded, sample, now), &st.policy)
	if firstLoaded(st.regs.Policy.State, st.policy.State, &sample) {
		a.startPause(st, &sample, now)
	}
	rate := min(a.enforced(st, params, now), share)
	a.window(&st.policy, params, rate)
	if st.policyChanged() {
		st.set |= bpf.SetPolicy
	}
	// Small changes of the policy's own rate may be skipped. A rate that a bound sets is exact.
	exact := rate != st.policy.RateBps || rate == share || params.Mode == fourcase.ModeFixed
	a.setRates(st, rate, exact)
	if a.needsClass(st) {
		st.setClass(a.classFor(st.key, st.class, st.stackRate))
	}
}

// window writes the limit of the bytes in flight into the policy's registers.
func (a *Agent) window(r *fourcase.Regs, params *fourcase.Params, rate uint64) {
	setWindow(r, params, rate, a.cfg.WindowOff != 0)
}

// needsClass reports whether packets are sent to the destination and have no class yet:
// its entry was made before traffic (node file, HELLO), or the class could not be made.
func (a *Agent) needsClass(st *step) bool {
	return a.pacer.Kind() == pacer.HTB && st.class == 0 && st.regs.TxPackets > 0 && st.rate != 0
}

// classRetry is the time until the next attempt after the kernel has refused a class.
const classRetry = 5 * time.Second

// classFor sets the rate of a destination's class, and returns the class: a new one if class
// is 0. The class changes before the data plane. A class that is faster than the model for a
// moment does no harm; a slower one would look like congestion.
func (a *Agent) classFor(key bpf.DestKey, class uint32, bps uint64) uint32 {
	now := loader.Monotonic()
	if class == 0 && now < a.classAfter {
		return 0
	}
	set, err := a.pacer.SetRate(class, bps)
	if err != nil {
		a.classAfter = now + uint64(classRetry)
		a.log.Warn("pacer", "peer", bpf.AddrOf(key), "err", err)
		return class
	}
	return set
}
