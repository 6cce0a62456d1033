// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"testing"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/bpf"
)

func (l *lab) engineSync(slots ...bpf.EngineSlot) []bpf.EngineSlot {
	l.t.Helper()
	if err := bpf.NewEngineSync(l.objs.SoftroceEngineSync).Run(slots); err != nil {
		l.t.Fatal(err)
	}
	return slots
}

// Packets of the engine count like those of the kernel stack, and put the destination into
// the active queue.
func TestEngineSyncCounts(t *testing.T) {
	l := newLab(t)
	l.know(peer4, func(d *bpf.DestRegs) {
		d.EngineRateBps, d.Caps, d.Node, d.CePending = 5e9, bpf.CapStamp|bpf.CapSACK, 7, 1
		d.TxPackets, d.WinLoss = 10, 1
	})
	got := l.engineSync(bpf.EngineSlot{
		Key: bpf.KeyOf(peer4), TxPackets: 3, TxBytes: 4000, TxUnstamped: 1, PsnRegressions: 2, Lost: 1, Paced: 4, PacedNs: 500,
		RateBps: 5e9, RttNs: 60, RttSentNs: labStart - 100, Flags: bpf.CEEchoed | bpf.EngineWaits, Limit: 7,
	})[0]
	if got.Found != 1 || got.RateBps != 5e9 || got.Caps != bpf.CapStamp|bpf.CapSACK || got.Node != 7 {
		t.Errorf("answer %+v", got)
	}
	want := bpf.DestRegs{
		WinTxNs: bpf.NoSample, WinRxNs: bpf.NoSample, RxToken: tokenOf(peer4), TxToken: tokenOf(peer4), EngineRateBps: 5e9, Caps: bpf.CapStamp | bpf.CapSACK, Node: 7,
		TxPackets: 13, TxBytes: 4000, TxUnstamped: 1, LastTxNs: labStart, PsnRegressions: 2, WinLoss: 2, WinPaced: 4, PacedNs: 500,
		RttNs: 60, WinRttNs: 60, Queued: 1, EnginePackets: 3, EngineBytes: 4000, WinEnginePaced: 4, WinEngine: bpf.EnginePaceBlocked, EngineLimit: 7,
	}
	if r := l.regs(peer4); r != want {
		t.Errorf("\n got %+v\nwant %+v", r, want)
	}
	if n := l.agentCall(bpf.AgentCollect, 9); n != 1 {
		t.Errorf("%d active destinations", n)
	}
	// Nothing sent: nothing to evaluate, and the time of the last packet stays.
	l.at(labStart + 5)
	l.engineSync(bpf.EngineSlot{Key: bpf.KeyOf(peer4), RateBps: 5e9})
	if r := l.regs(peer4); r.LastTxNs != labStart || r.Queued != 0 || r.TxPackets != 13 || r.WinEngine != bpf.EngineFree || r.EngineLimit != 0 {
		t.Errorf("an empty report: %+v", r)
	}
}

// Data that waits for the pacer makes its destination active, though nothing was sent:
// otherwise a slow destination gets a higher rate only with its next packet.
func TestEngineSyncPaceBlocked(t *testing.T) {
	l := newLab(t)
	l.know(peer4, func(d *bpf.DestRegs) { d.EngineRateBps = 1e5 })
	l.engineSync(bpf.EngineSlot{Key: bpf.KeyOf(peer4), PacedNs: 3e6, RateBps: 1e5})
	if r := l.regs(peer4); r.Queued != 1 || r.WinPaced != 1 || r.PacedNs != 3e6 || r.TxPackets != 0 || r.LastTxNs != 0 {
		t.Errorf("%+v", r)
	}
	if n := l.agentCall(bpf.AgentCollect, 9); n != 1 {
		t.Errorf("%d active destinations", n)
	}
}

// A rate that engine_sync returns applies to packets from now on: echoes of earlier packets
// must not count for it.
func TestEngineSyncRate(t *testing.T) {
	l := newLab(t)
	l.know(peer4, func(d *bpf.DestRegs) {
		d.RateBps, d.StackRateBps, d.EngineRateBps, d.ValidAfterNs = 5e9, 3e9, 2e9, labStart-50
	})
	slot := bpf.EngineSlot{Key: bpf.KeyOf(peer4), RateBps: 5e9, RttNs: 60, RttSentNs: labStart - 60}
	if got := l.engineSync(slot)[0]; got.RateBps != 2e9 || got.WindowBytes != 0 {
		t.Errorf("%+v", got)
	}
	for in, want := range map[uint64]uint32{70_000: 70_000, 1<<32 - 1: 1<<32 - 1, 1 << 32: 0} {
		l.know(peer6, func(d *bpf.DestRegs) { d.Policy.WindowBytes = in })
		if got := l.engineSync(bpf.EngineSlot{Key: bpf.KeyOf(peer6), WindowBytes: 5})[0].WindowBytes; got != want {
			t.Errorf("a window of %d came as %d, want %d", in, got, want)
		}
	}
	r := l.regs(peer4)
	if r.ValidAfterNs != labStart || r.RttNs != 60 || r.WinRttNs != bpf.NoSample {
		t.Errorf("%+v", r)
	}
	slot.RateBps = 2e9
	l.at(labStart + 9)
	l.engineSync(slot)
	if again := l.regs(peer4); again.ValidAfterNs != labStart {
		t.Errorf("the same rate again: settles at %d", again.ValidAfterNs)
	}
}

// A destination of the engine gets an entry as one of the kernel stack does, and the agent
// sends a HELLO.
func TestEngineSyncCreates(t *testing.T) {
	l := newLab(t, func(s *ebpf.CollectionSpec) { s.Maps[bpf.SoftroceMapDestTable].MaxEntries = 2 })
	l.config(func(c *bpf.Config) { c.InitialRateBps = 3e9 })
	got := l.engineSync(bpf.EngineSlot{Key: bpf.KeyOf(peer4)}, bpf.EngineSlot{Key: bpf.KeyOf(peer6)})
	for i, s := range got {
		if s.Found != 1 || s.RateBps != 3e9 || s.Caps != 0 {
			t.Errorf("slot %d: %+v", i, s)
		}
	}
	if l.wantEvent(bpf.EventNewDest, peer4); l.regs(peer4).RxToken != tokenOf(peer4) {
		t.Errorf("%+v", l.regs(peer4))
	}
	l.wantEvent(bpf.EventNewDest, peer6)

	full := l.engineSync(bpf.EngineSlot{Key: bpf.KeyOf(us4), TxPackets: 1}, bpf.EngineSlot{Key: bpf.KeyOf(peer4), TxPackets: 1})
	if full[0].Found != 0 || full[1].Found != 1 || l.regs(peer4).TxPackets != 1 {
		t.Errorf("a full table: %+v", full)
	}
	l.wantCounters("tx_table_full")
}

// A whole message, and one that is too long.
func TestEngineSyncBatch(t *testing.T) {
	l := newLab(t)
	slots := make([]bpf.EngineSlot, bpf.EngineSlots+1)
	for i := range slots {
		slots[i] = bpf.EngineSlot{Key: bpf.KeyOf(addr4(uint32(0x0a020000 + i))), TxPackets: uint32(i)}
	}
	l.engineSync(slots[:bpf.EngineSlots]...)
	for i, s := range slots[:bpf.EngineSlots] {
		if s.Found != 1 || l.regs(bpf.AddrOf(s.Key)).TxPackets != uint64(i) {
			t.Errorf("slot %d: %+v", i, s)
		}
	}
	if l.entries() != bpf.EngineSlots {
		t.Errorf("%d entries", l.entries())
	}
	if err := bpf.NewEngineSync(l.objs.SoftroceEngineSync).Run(slots); err == nil {
		t.Error("too many slots went through")
	}
	// The engine sync program refuses requests of the agent.
	if _, err := bpf.RunAgentCall(l.objs.SoftroceEngineSync, bpf.AgentCollect, 1); err == nil {
		t.Error("took a request of the agent")
	}
}

// A report of answers alone makes no entry, as anybody can have a REQ answered; if there is an entry, it
// counts as any other (S10).
func TestCMAnswersMakeNoEntry(t *testing.T) {
	l := newLab(t)
	slot := bpf.EngineSlot{Key: bpf.KeyOf(peer4), TxPackets: 1, TxBytes: 300, RateBps: 7, Flags: bpf.EngineCMAnswers}
	if got := l.engineSync(slot)[0]; got.Found != 0 || got.RateBps != 7 || l.entries() != 0 {
		t.Errorf("answer %+v, %d entries", got, l.entries())
	}
	l.wantNoEvent()
	l.know(peer4, aware)
	if got := l.engineSync(slot)[0]; got.Found != 1 || got.Caps != bpf.CapStamp || l.regs(peer4).TxPackets != 1 {
		t.Errorf("answer %+v, entry %+v", got, l.regs(peer4))
	}
	slot.Key, slot.Flags = bpf.KeyOf(peer6), 0
	if got := l.engineSync(slot)[0]; got.Found != 1 || l.entries() != 2 {
		t.Errorf("answer %+v, %d entries", got, l.entries())
	}
}
