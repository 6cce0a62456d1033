// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
)

// Decisions change the step. The slot keeps what was read until store, which then names
// what to write.
func TestStepStore(t *testing.T) {
	slot := &bpf.AgentSlot{Key: keyN(1), Op: bpf.SetCaps, ShiftNs: 99} // of an earlier step
	slot.Regs = bpf.DestRegs{RateBps: 10, Bound: 5, StackRateBps: 4, EngineRateBps: 6, ClassId: 7, Node: 2, TxPackets: 5}
	slot.Regs.Policy.RateBps = 12
	read := slot.Regs

	st := stepOf(slot)
	if st.policyChanged() || st.store(slot) || slot.Regs != read || slot.Op != 0 || slot.ShiftNs != 0 {
		t.Fatalf("nothing was decided, and the slot is %+v", slot)
	}

	st = stepOf(slot)
	st.setClass(7)
	if st.set != 0 {
		t.Error("the same class is no change")
	}
	st.setClass(8)
	st.shiftNextTx(30)
	st.set |= bpf.KeepEchoes
	st.shiftNextTx(-10)
	st.policy.RateBps, st.rate, st.bound, st.stackRate, st.engineRate = 22, 20, BoundFloor, 8, 12
	if slot.Regs != read || !st.policyChanged() {
		t.Errorf("before store the slot is %+v", slot)
	}
	st.set |= bpf.SetPolicy
	want := read
	want.ClassId, want.RateBps, want.Bound, want.StackRateBps, want.EngineRateBps, want.Policy.RateBps = 8, 20, 3, 8, 12, 22
	if !st.store(slot) || slot.Regs != want || slot.ShiftNs != 20 || slot.Op != bpf.SetClass|bpf.ShiftNextTx|bpf.SetPolicy {
		t.Errorf("stored %+v\nwant registers %+v", slot, want)
	}
}

// A window that goes on gives no sample, whatever it has gathered so far.
func TestStepSample(t *testing.T) {
	d := &bpf.DestRegs{TxPackets: 9, WinSamples: 3, WinTxNs: 4, WinRxNs: 5, WinRttNs: 9, TurnaroundNs: 1, WinCe: 1, WinDue: 1}
	sampled, waiting := step{regs: d, sampled: true}, step{regs: d, waits: true}
	if got, want := sampled.sample(), (fourcase.Sample{Sent: 9, Samples: 3, Tx: 4, Rx: 5, RTT: 9, Turn: 1, CE: 1, AppLimited: true}); got != want || sampled.paced() {
		t.Errorf("%+v, want %+v; paced %t", got, want, sampled.paced())
	}
	if got, want := waiting.sample(), (fourcase.Sample{Sent: 9}); got != want || !waiting.paced() {
		t.Errorf("%+v, want %+v; paced %t", got, want, waiting.paced())
	}
}

// A decision that leaves the rate as it is changes other registers, and they are written.
func TestDecisionWithoutNewRateIsStored(t *testing.T) {
	p := play(playLink, playLink, fourcase.ModeFixed, 1)
	d := p.dests[0]
	d.stack = playLink / 2
	p.ticks(100)
	before := d.regs
	p.ticks(100)
	if d.regs.RateBps != before.RateBps || d.regs.StackRateBps != before.StackRateBps || d.regs.EngineRateBps != before.EngineRateBps {
		t.Fatalf("the rates changed from %+v to %+v: this shows nothing", before, d.regs)
	}
	if d.regs.Policy.Decisions < before.Policy.Decisions+50 {
		t.Errorf("%d decisions before and %d after a second", before.Policy.Decisions, d.regs.Policy.Decisions)
	}
}
