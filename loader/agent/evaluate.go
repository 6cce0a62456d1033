// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/loader"
)

// evaluate runs the policy for every destination that had traffic since the last
// time, and returns how many these were.
func (a *Agent) evaluate(now uint64) (total int, err error) {
	a.resyncs.left = resyncPerTick
	a.senders.begin(now)
	params := *bpf.ParamsAs[fourcase.Params](&a.cfg.Policy)
	for {
		n, err := a.x.Collect()
		if err != nil {
			return 0, err
		}
		total += n
		if a.judge(a.x.Slots[:n], &params, true, now, loader.Monotonic()) {
			if err := a.x.Apply(n); err != nil {
				return 0, err
			}
		}
		if n < len(a.x.Slots) {
			return total, nil
		}
	}
}

// judge decides on the destinations of some slots, and reports whether there is
// something to write back. sampled: the slots hold what a window has gathered. now is
// when the turn began: what compares turns compares these. read is when the slots were:
// what was sent in between does not wait.
func (a *Agent) judge(slots []bpf.ExchangeSlot, params *fourcase.Params, sampled bool, now, read uint64) (changed bool) {
	// All of them first: who comes now has its share of the link in this evaluation.
	batch := a.senders.batch[:0]
	for i := range slots {
		var x *sender
		if slots[i].Found != 0 {
			x = a.senders.note(&slots[i], a.cfg.Config, read)
		}
		batch = append(batch, x)
	}
	a.senders.batch = batch
	a.senders.shareLink(a.cfg.LinkRateBps, params)
	for i := range slots {
		slot := &slots[i]
		slot.Op = 0
		if slot.Found == 0 {
			a.waiting.drop(slot.Key)
			continue
		}
		waits := a.waiting.note(slot, now)
		if sampled {
			a.echoes.note(slot.Key, &slot.Regs, now)
		} else {
			withoutSample(&slot.Regs)
		}
		a.resync(slot) // the model ends somewhere, a class may hold more
		a.decide(slot, batch[i], params, waits, now)
		changed = changed || slot.Op != 0
	}
	return changed
}

// decide makes one policy step on a snapshot and says in slot.Op what of it is
// to be written back. waits: packets wait in the pacer for some time.
func (a *Agent) decide(slot *bpf.ExchangeSlot, x *sender, params *fourcase.Params, waits bool, now uint64) {
	d := &slot.Regs
	regs := bpf.PolicyAs[fourcase.Regs](&d.Policy)
	before := *regs
	share := params.MaxRateBps
	if !a.prioritizes() {
		share = a.senders.share(params)
	}
	if a.sends(d, waits, now) {
		a.wake(slot, params, now)
	}
	bounded := x.bound(regs, params, share)
	sample := sampleOf(d, waits)
	sample.ShareBps = a.share(params)
	sample.Idle = sample.Idle || a.drains.answers(slot.Key, &sample, now)
	x.judged(fourcase.Step(regs, &bounded, sample, now), regs)
	if firstLoaded(&before, regs, &sample) {
		a.startDrain(slot, &sample, now)
	}
	rate := min(a.enforced(slot, regs, params, now), share)
	a.window(d, params, rate)
	if *regs != before {
		slot.Op |= bpf.SetPolicy
	}
	// The policy changes its own rate by a little all the time; what bounds it is exact.
	exact := rate != regs.RateBps || rate == share || params.Mode == fourcase.ModeFixed
	a.setRates(slot, x, rate, exact)
	if a.unclassed(d) {
		a.setClass(slot, d.StackRateBps)
	}
}

// window puts the limit of what may be under way into a destination's registers.
func (a *Agent) window(d *bpf.DestRegs, params *fourcase.Params, rate uint64) {
	setWindow(bpf.PolicyAs[fourcase.Regs](&d.Policy), params, rate, a.cfg.WindowOff != 0)
}

// unclassed says that we send to the destination and its packets have no class
// yet: its entry was made before traffic (node file, HELLO), or the class could
// not be made then.
func (a *Agent) unclassed(d *bpf.DestRegs) bool {
	return a.pacer.Kind() == bpf.PacerHTB && d.ClassId == 0 && d.TxPackets > 0 && d.RateBps != 0
}

// classRetry is how long we leave it when the kernel refuses a class.
const classRetry = 5 * time.Second

// setClass tells the pacer before the data plane: a class that is faster than
// its model for a moment does no harm, one that is slower would look like
// congestion.
func (a *Agent) setClass(slot *bpf.ExchangeSlot, bps uint64) {
	now := loader.Monotonic()
	if slot.Regs.ClassId == 0 && now < a.classAfter {
		return
	}
	class, err := a.pacer.SetRate(slot.Regs.ClassId, bps)
	if err != nil {
		a.classAfter = now + uint64(classRetry)
		a.log.Warn("pacer", "peer", bpf.AddrOf(slot.Key), "err", err)
		return
	}
	if class != slot.Regs.ClassId {
		slot.Regs.ClassId = class
		slot.Op |= bpf.SetClass
	}
}

// sampleOf turns a window of the data plane into the policy's sample. waits: packets
// wait in the pacer for some time.
func sampleOf(d *bpf.DestRegs, waits bool) fourcase.Sample {
	s := fourcase.Sample{
		// A sender that is blocked, as all it may have waits in the pacer, uses its rate.
		CE: d.WinCe, AppLimited: d.WinPaced == 0 && !waits,
		// Before any data flowed there is nothing of ours in the queues.
		Idle:     d.TxPackets == 0,
		OpenLoop: d.WinDue == 0,
		// What was sent for the first time: going back to one lost packet repeats
		// many that were not.
		Sent: d.TxPackets - min(d.Rewinds, d.TxPackets),
	}
	if d.WinRnr == 0 {
		s.Loss = d.WinLoss // a receiver that is not ready is no congestion
	}
	if d.WinRttNs != bpf.NoSample {
		s.RTT, s.Samples = d.WinRttNs, 1
	}
	if d.WinSamples > 0 && d.WinTxNs != bpf.NoSample {
		s.Samples, s.Tx, s.Rx, s.Turn = d.WinSamples, d.WinTxNs, d.WinRxNs, max(d.TurnNs, 1) // 0: Rx has none
	}
	return s
}
