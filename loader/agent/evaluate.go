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
	params := *bpf.ParamsAs[fourcase.Params](&a.cfg.Policy)
	for {
		n, err := a.x.Collect()
		if err != nil {
			return 0, err
		}
		total += n
		changed := false
		for i := range a.x.Slots[:n] {
			slot := &a.x.Slots[i]
			slot.Op = 0
			if slot.Found == 0 {
				continue
			}
			waits := a.waiting.note(slot, now)
			a.echoes.note(slot.Key, &slot.Regs, now)
			a.resync(slot)
			a.decide(slot, &params, waits, now)
			changed = changed || slot.Op != 0
		}
		if changed {
			if err := a.x.Apply(n); err != nil {
				return 0, err
			}
		}
		if n < len(a.x.Slots) {
			return total, nil
		}
	}
}

// decide makes one policy step on a snapshot and says in slot.Op what of it is
// to be written back. waits: packets wait in the pacer for some time.
func (a *Agent) decide(slot *bpf.ExchangeSlot, params *fourcase.Params, waits bool, now uint64) {
	d := &slot.Regs
	regs := bpf.PolicyAs[fourcase.Regs](&d.Policy)
	before := *regs
	if a.sends(d, waits, now) {
		a.wake(slot, params, now)
	}
	sample := sampleOf(d, waits)
	sample.ShareBps = a.share(params)
	sample.Idle = sample.Idle || a.drains.answers(slot.Key, &sample, now)
	fourcase.Step(regs, params, sample, now)
	if firstLoaded(&before, regs, &sample) {
		a.startDrain(slot, &sample, now)
	}
	rate := a.enforced(slot, regs, params, now)
	a.window(d, params, rate)
	if *regs != before {
		slot.Op |= bpf.SetPolicy
	}
	if rate != d.RateBps {
		slot.Op |= bpf.SetPolicy
		if d.ClassId != 0 {
			a.setClass(slot, rate)
		}
		d.RateBps = rate
	}
	if a.unclassed(d) {
		a.setClass(slot, d.RateBps)
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
