// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
)

// evaluate runs the policy for every destination that had traffic since the last
// evaluation. It returns their number.
func (l *Loop) evaluate(now uint64) (total int, err error) {
	l.reconciler.left = reconcilePerTick
	l.senders.begin(now)
	params := *bpf.ParamsAs[fourcase.Params](&l.cfg.Policy)
	slots := l.table.Slots()
	for {
		n, err := l.table.Collect()
		if err != nil {
			return 0, err
		}
		total += n
		if l.evaluateSlots(slots[:n], &params, true, now, l.clock()) {
			if err := l.table.Apply(n); err != nil {
				return 0, err
			}
		}
		if n < len(slots) {
			return total, nil
		}
	}
}

// evaluateSlots decides for the destinations of some slots, and reports whether there is
// something to write back. sampled: the slots have the samples of a window. now is the start
// of the tick; all comparisons between ticks use it. read is the time at which the slots
// were read: packets whose departure is before it do not wait.
func (l *Loop) evaluateSlots(slots []bpf.AgentSlot, params *fourcase.Params, sampled bool, now, read uint64) (changed bool) {
	// All senders come first, so that a new one has its share of the link in this evaluation.
	steps := l.steps[:0]
	for i := range slots {
		slot := &slots[i]
		st := stepOf(slot)
		st.sampled = sampled
		if slot.Found != 0 {
			st.limit = l.limitOf(st.key, now)
			st.sender = l.senders.note(st.key, st.regs, l.cfg, read)
			st.sender.limit = st.limit
			st.waits = l.paceBlocked.note(st.key, st.regs.NextTxNs, now)
			st.restarts = l.sends(&st, now) && !l.recentlyActive.note(st.key, now)
		}
		steps = append(steps, st)
	}
	l.steps = steps
	l.senders.shareLink(l.cfg.LinkRateBps, params)
	for i := range slots {
		slot, st := &slots[i], &steps[i]
		slot.Op = 0
		if slot.Found == 0 {
			l.paceBlocked.drop(slot.Key)
			continue
		}
		if sampled && l.evaluated != nil {
			l.evaluated(st.key, st.regs, now)
		}
		l.reconcileBacklog(st) // also where the model is at its limit and the class has a larger backlog
		l.decide(st, params, now)
		changed = st.store(slot) || changed
	}
	return changed
}

// decide makes one step of the policy.
func (l *Loop) decide(st *step, params *fourcase.Params, now uint64) {
	share := l.evenShare(params)
	if st.restarts {
		l.restartIdle(st, params, now)
	}
	below := st.sender.below(&st.policy, params, share)
	sample := st.sample()
	sample.ShareBps = l.share(params)
	sample.Idle = sample.Idle || l.pauses.answers(st.key, &sample, now)
	st.sender.decided(fourcase.Step(&st.policy, &below, sample, now), &st.policy)
	if firstLoaded(st.regs.Policy.State, st.policy.State, &sample) {
		l.startPause(st, &sample, now)
	}
	rate := l.bounded(st, params, share, now)
	l.window(&st.policy, params, rate)
	if st.policyChanged() {
		st.set |= bpf.SetPolicy
	}
	// Small changes of the policy's own rate may be skipped. A rate that a bound sets is exact.
	exact := rate != st.policy.RateBps || rate == share || params.Mode == fourcase.ModeFixed
	l.setRates(st, rate, exact)
	if l.needsClass(st) {
		st.setClass(l.classFor(st.key, st.class, st.stackRate))
	}
}

// window writes the limit of the bytes in flight into the policy's registers.
func (l *Loop) window(r *fourcase.Regs, params *fourcase.Params, rate uint64) {
	setWindow(r, params, rate, l.cfg.WindowOff != 0)
}

// needsClass reports whether packets are sent to the destination and have no class yet:
// its entry was made before traffic (node file, HELLO), or the class could not be made.
func (l *Loop) needsClass(st *step) bool {
	return l.cfg.Pacer == bpf.PacerHTB && st.class == 0 && st.regs.TxPackets > 0 && st.rate != 0
}

// classRetry is the time until the next attempt after the kernel has refused a class.
const classRetry = 5 * time.Second

// classFor sets the rate of a destination's class, and returns the class: a new one if class
// is 0. The class changes before the data plane. A class that is faster than the model for a
// moment does no harm; a slower one would look like congestion.
func (l *Loop) classFor(key bpf.DestKey, class uint32, bps uint64) uint32 {
	now := l.clock()
	if class == 0 && now < l.classAfter {
		return 0
	}
	set, err := l.pacer.SetRate(class, bps)
	if err != nil {
		l.classAfter = now + uint64(classRetry)
		if l.failed.note(err, now) {
			l.log.Warn("pacer", "peer", bpf.AddrOf(key), "err", err)
		}
		return class
	}
	return set
}
