// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
)

// step is the evaluation of one destination: the snapshot of its registers, and what is
// decided. Decisions change the step, not the snapshot; store puts them into the slot.
type step struct {
	key    bpf.DestKey
	regs   *bpf.DestRegs // the snapshot, not written before store
	sender *sender
	limit  uint64 // limit that the destination has named, bit/s, 0 = none

	// sampled: the snapshot ends the sample window. Otherwise the window goes on, and the
	// destination is evaluated because packets wait in the pacer.
	sampled  bool
	waits    bool // packets wait in the pacer for longer than shortWait
	restarts bool // data of this host waits for it again, after idle

	// Results: the values that were read, until a decision changes them.
	policy     fourcase.Regs
	rate       uint64 // rate of the destination, bit/s
	bound      Bound  // bound that sets the rate
	stackRate  uint64 // the part of the kernel stack
	engineRate uint64 // the part of the engine
	class      uint32 // class of the pacer
	node       uint32
	shiftNs    int64 // shift of next_tx_ns

	set uint32 // fields to be written: bpf.SetPolicy and so on
}

// stepOf starts the step of a slot that was read.
func stepOf(slot *bpf.AgentSlot) step {
	d := &slot.Regs
	return step{
		key: slot.Key, regs: d, policy: *bpf.PolicyAs[fourcase.Regs](&d.Policy),
		rate: d.RateBps, bound: Bound(d.Bound), stackRate: d.StackRateBps, engineRate: d.EngineRateBps, class: d.ClassId, node: d.Node,
	}
}

// store puts the decisions into the slot that the step was started with, and reports
// whether there is something to apply.
func (st *step) store(slot *bpf.AgentSlot) bool {
	d := &slot.Regs
	*bpf.PolicyAs[fourcase.Regs](&d.Policy) = st.policy
	d.RateBps, d.StackRateBps, d.EngineRateBps = st.rate, st.stackRate, st.engineRate
	d.Bound, d.ClassId, d.Node = uint8(st.bound), st.class, st.node
	slot.ShiftNs, slot.Op = st.shiftNs, st.set
	return st.set != 0
}

// policyChanged reports whether a decision changed the policy's registers.
func (st *step) policyChanged() bool {
	return st.policy != *bpf.PolicyAs[fourcase.Regs](&st.regs.Policy)
}

// setClass sets the pacer's class.
func (st *step) setClass(class uint32) {
	if class != st.class {
		st.class = class
		st.set |= bpf.SetClass
	}
}

// shiftNextTx moves next_tx_ns, the time at which the pacer's model is empty. It may be called
// several times: the shifts add up. Echoes of packets that wait now do not count, unless
// bpf.KeepEchoes is set after this.
func (st *step) shiftNextTx(by int64) {
	st.shiftNs += by
	st.set = st.set&^bpf.KeepEchoes | bpf.ShiftNextTx
}

// emptyAt returns when the model is empty once the step is applied, monotonic ns.
func (st *step) emptyAt() uint64 { return st.regs.NextTxNs + uint64(st.shiftNs) }

// paced reports whether packets waited for the rate in this window.
func (st *step) paced() bool { return !st.sampled || st.regs.WinPaced > 0 }

// sample returns the policy's view of the window.
func (st *step) sample() fourcase.Sample {
	if !st.sampled {
		return withoutSample(st.regs)
	}
	return SampleOf(st.regs, st.waits)
}

// withoutSample is the sample of a window that goes on: packets wait in the pacer, so the
// rate is used, and nothing else is known.
func withoutSample(d *bpf.DestRegs) fourcase.Sample {
	return fourcase.Sample{
		// Before any data was sent, queues have no packets of this host.
		Idle:     d.TxPackets == 0,
		OpenLoop: d.WinDue == 0,
		// Without retransmissions: go-back-N repeats many packets for one that was lost.
		Sent: d.TxPackets - min(d.PsnRegressions, d.TxPackets),
	}
}

// SampleOf converts a window of the data plane into the policy's sample. waits: packets wait
// in the pacer for longer than shortWait. A sender whose packets all wait there uses its
// rate, even if none was sent.
func SampleOf(d *bpf.DestRegs, waits bool) fourcase.Sample {
	s := withoutSample(d)
	s.CE, s.AppLimited = d.WinCe, d.WinPaced == 0 && !waits
	if d.WinRnr == 0 {
		s.Loss = d.WinLoss // a receiver that is not ready is no congestion
	}
	if d.WinRttNs != bpf.NoSample {
		s.RTT, s.Samples = d.WinRttNs, 1
	}
	if d.WinSamples > 0 && d.WinTxNs != bpf.NoSample {
		s.Samples, s.Tx, s.Rx, s.Turn = d.WinSamples, d.WinTxNs, d.WinRxNs, max(d.TurnaroundNs, 1) // 0: Rx has none
	}
	return s
}
