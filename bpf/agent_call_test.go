// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
)

// callBuffer maps the slots into memory, as the agent does.
func (l *lab) callBuffer() []bpf.AgentSlot {
	l.t.Helper()
	mem, err := unix.Mmap(l.objs.CallBuffer.FD(), 0, int(l.objs.CallBuffer.ValueSize()*l.objs.CallBuffer.MaxEntries()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		if err := unix.Munmap(mem); err != nil {
			l.t.Error(err)
		}
	})
	return bpf.SlotsOf(mem)
}

func (l *lab) agentCall(op uint32, n int) int {
	l.t.Helper()
	done, err := bpf.RunAgentCall(l.objs.SoftroceAgentCall, op, n)
	if err != nil {
		l.t.Fatal(err)
	}
	return done
}

// Collect hands out each active destination once, with its window, and starts the
// next window.
func TestAgentCallCollect(t *testing.T) {
	l := newLab(t)
	slots := l.callBuffer()
	l.know(peer4, func(d *bpf.DestRegs) {
		d.WinTxNs, d.WinRxNs, d.WinRttNs, d.WinSamples, d.WinCe, d.WinLoss, d.WinRnr, d.WinPaced = 1, 2, 3, 4, 5, 6, 7, 8
		d.RateBps, d.Policy.RateBps, d.Policy.BaseTxNs = 9, 10, 11
		d.WinEnginePaced, d.WinEngine = 12, bpf.EnginePaceBlocked
	})
	l.know(peer6)
	for range 2 { // two packets each: on the list once
		l.out(toPeer(t, write(64)))
		l.out(toPeer(t, over6(write(64))))
	}
	if n := l.agentCall(bpf.AgentCollect, bpf.AgentSlots); n != 2 {
		t.Fatalf("%d destinations, want 2", n)
	}
	s := slots[0]
	if bpf.AddrOf(s.Key) != peer4 || s.Found != 1 || bpf.AddrOf(slots[1].Key) != peer6 || slots[1].Found != 1 {
		t.Errorf("%+v\n%+v", s, slots[1])
	}
	if r := s.Regs; r.WinTxNs != 1 || r.WinRxNs != 2 || r.WinRttNs != 3 || r.WinSamples != 4 || r.WinCe != 5 || r.WinLoss != 7 || r.WinRnr != 7 ||
		r.WinPaced != 8 || r.TxPackets != 2 || r.WinEnginePaced != 12 || r.WinEngine != bpf.EnginePaceBlocked || r.RateBps != 9 || r.Policy.BaseTxNs != 11 {
		t.Errorf("%+v", r)
	}
	r := l.regs(peer4)
	if r.WinTxNs != bpf.NoSample || r.WinRxNs != bpf.NoSample || r.WinRttNs != bpf.NoSample || r.WinSamples+r.WinCe+r.WinLoss+r.WinPaced != 0 ||
		r.WinEnginePaced != 0 || r.WinEngine != bpf.EngineSilent || r.WinRnr != 0 || r.Queued != 0 || r.TxPackets != 2 {
		t.Errorf("after: %+v", r)
	}
	if n := l.agentCall(bpf.AgentCollect, bpf.AgentSlots); n != 0 {
		t.Errorf("%d destinations in an idle window", n)
	}
	l.out(toPeer(t, write(64)))
	if n := l.agentCall(bpf.AgentCollect, bpf.AgentSlots); n != 1 {
		t.Errorf("%d destinations after one packet", n)
	}
}

// The call buffer is filled as far as it goes; the rest stays on the list.
func TestAgentCallBatches(t *testing.T) {
	l := newLab(t)
	l.callBuffer()
	const n = 300
	for i := range n {
		d := write(64)
		d.Src = netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)})
		l.out(toPeer(t, d))
	}
	for i, want := range []int{5, 128, 128, 39, 0} {
		ask := bpf.AgentSlots
		if i == 0 {
			ask = 5
		}
		if i == 1 {
			ask = 1000 // more than there are slots
		}
		if got := l.agentCall(bpf.AgentCollect, ask); got != want {
			t.Errorf("batch %d: %d destinations, want %d", i, got, want)
		}
	}
}

// A destination that was deleted after its traffic comes out as not found.
func TestAgentCallDeleted(t *testing.T) {
	l := newLab(t)
	slots := l.callBuffer()
	l.out(toPeer(t, write(64)))
	if err := l.objs.DestTable.Delete(bpf.KeyOf(peer4)); err != nil {
		t.Fatal(err)
	}
	slots[0].Found = 1
	if n := l.agentCall(bpf.AgentCollect, 1); n != 1 || slots[0].Found != 0 || bpf.AddrOf(slots[0].Key) != peer4 {
		t.Errorf("%d, %+v", n, slots[0])
	}
}

// Read changes nothing.
func TestAgentCallRead(t *testing.T) {
	l := newLab(t)
	slots := l.callBuffer()
	l.out(toPeer(t, write(64)))
	before := l.regs(peer4)
	slots[0].Key, slots[1].Key = bpf.KeyOf(peer4), bpf.KeyOf(peer6)
	if n := l.agentCall(bpf.AgentRead, 2); n != 2 || slots[0].Found != 1 || slots[0].Regs != before || slots[1].Found != 0 {
		t.Errorf("%d, %+v", n, slots[:2])
	}
	if l.regs(peer4) != before || l.agentCall(bpf.AgentCollect, 9) != 1 {
		t.Error("the entry changed")
	}
}

// Apply writes what the slot names, and nothing else.
func TestAgentCallApply(t *testing.T) {
	all := bpf.DestRegs{RateBps: 7, StackRateBps: 4, EngineRateBps: 5, Bound: 2, EngineLimit: 6, EngineBytes: 99, NextTxNs: labStart + 3, ClassId: 8, Node: 9, Caps: 10, TxPackets: 99, Policy: bpf.PolicyRegs{RateBps: 7, Decisions: 3}}
	old := func(d *bpf.DestRegs) { d.RateBps, d.ClassId, d.Node, d.Caps = 70, 80, 90, 100 }
	l := newLab(t)
	slots := l.callBuffer()
	for _, c := range []struct {
		name string
		set  uint32
		want func(*bpf.DestRegs)
	}{
		{"nothing", 0, func(*bpf.DestRegs) {}},
		{"class", bpf.SetClass, func(d *bpf.DestRegs) { d.ClassId = 8 }},
		{"node", bpf.SetNode, func(d *bpf.DestRegs) { d.Node = 9 }},
		{"caps", bpf.SetCaps, func(d *bpf.DestRegs) { d.Caps = 10 }},
		{"the pacer's queue", bpf.ShiftNextTx, func(d *bpf.DestRegs) { d.NextTxNs, d.ValidAfterNs = labStart+3, labStart+3 }},
		{"the pacer's queue, by little", bpf.ShiftNextTx | bpf.KeepEchoes, func(d *bpf.DestRegs) { d.NextTxNs = labStart + 3 }},
		{"policy", bpf.SetPolicy, func(d *bpf.DestRegs) {
			d.RateBps, d.StackRateBps, d.EngineRateBps, d.Bound, d.Policy, d.ValidAfterNs = 7, 4, 5, 2, all.Policy, labStart
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := l.with(t)
			l.know(peer4, old)
			want := l.regs(peer4)
			c.want(&want)
			slots[0].Key, slots[0].Op, slots[0].Regs, slots[0].Found = bpf.KeyOf(peer4), c.set, all, 0
			slots[0].ShiftNs = labStart + 3
			slots[1].Key, slots[1].Op, slots[1].Found = bpf.KeyOf(peer6), c.set, 1
			l.agentCall(bpf.AgentApply, 2)
			if got := l.regs(peer4); got != want || slots[0].Found != 1 || slots[1].Found != 0 || l.entries() != 1 {
				t.Errorf("found %d, %d\n got %+v\nwant %+v", slots[0].Found, slots[1].Found, got, want)
			}
		})
	}
}

// A new rate, and what it does to packets that wait already: an HTB class sends
// its backlog at the new rate, fq holds packets to the times they got.
func TestAgentCallRate(t *testing.T) {
	const M = 1_000_000
	l := newLab(t)
	slots := l.callBuffer()
	for _, c := range []struct {
		name     string
		pacer    uint32
		old, new uint64
		backlog  int64 // ns that next_tx_ns is ahead, before
		want     int64 // expected ns that next_tx_ns is ahead, after; valid_after_ns is the same
	}{
		{"htb, half the rate, twice the wait", bpf.PacerHTB, 1000 * M, 500 * M, 3000, 6000},
		{"htb, twice the rate", bpf.PacerHTB, 500 * M, 1000 * M, 3000, 1500},
		{"htb, low rates keep their ratio", bpf.PacerHTB, 200_000, 100_000, 3000, 6030},
		{"htb, from 400 to 100 Gbit/s at the longest wait", bpf.PacerHTB, 400_000 * M, 100_000 * M, 3900 * M, 15_600 * M},
		{"htb, a rate that would block for hours", bpf.PacerHTB, 400_000 * M, M, 8000 * M, 16_000 * M},
		{"edt, half the rate", bpf.PacerEDT, 1000 * M, 500 * M, 3000, 3000},
		{"nothing waits: what was saved up stays", bpf.PacerHTB, 1000 * M, 500 * M, -5, -5},
		{"police, half the rate", bpf.PacerPolice, 1000 * M, 500 * M, 3000, 6000},
		{"unpaced before", bpf.PacerHTB, 0, 500 * M, 3000, 0},
		{"unpaced from now on", bpf.PacerHTB, 1000 * M, 0, 3000, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := l.with(t)
			l.config(func(cfg *bpf.Config) { cfg.Pacer = c.pacer })
			l.know(peer4, func(d *bpf.DestRegs) {
				d.RateBps, d.StackRateBps, d.NextTxNs, d.ValidAfterNs = c.old, c.old, uint64(labStart+c.backlog), 5
			})
			slots[0].Key, slots[0].Op, slots[0].Regs = bpf.KeyOf(peer4), bpf.SetPolicy, bpf.DestRegs{RateBps: c.new, StackRateBps: c.new}
			l.agentCall(bpf.AgentApply, 1)
			r := l.regs(peer4)
			if r.StackRateBps != c.new || int64(r.NextTxNs)-labStart != c.want || int64(r.ValidAfterNs)-labStart != max(c.want, 0) {
				t.Errorf("rate %d, waits %d ns, settles in %d, want %d", r.StackRateBps, int64(r.NextTxNs)-labStart, int64(r.ValidAfterNs)-labStart, c.want)
			}
			// The same rate again is no change: echoes go on counting.
			l.at(labStart + 1)
			l.agentCall(bpf.AgentApply, 1)
			if again := l.regs(peer4); again != r {
				t.Errorf("the same rate again: %+v", again)
			}
			l.at(labStart)
		})
	}
}

// What the packet that left last has used up stays as long, at whatever rate the
// others leave: HTB's tokens are time.
func TestAgentCallRateKeepsTheLastPacket(t *testing.T) {
	const M = 1_000_000
	l := newLab(t)
	slots := l.callBuffer()
	for _, c := range []struct {
		name          string
		old, new      uint64
		backlog, want int64
	}{
		// Frames of 1250 bytes: 10 us each at 1 Gbit/s.
		{"only that one", 1000 * M, 500 * M, 7000, 7000},
		{"and two behind it, half the rate", 1000 * M, 500 * M, 27_000, 47_000},
		{"and two behind it, twice the rate", 1000 * M, 2000 * M, 27_000, 17_000},
		{"two whole ones", 1000 * M, 500 * M, 20_000, 40_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := l.with(t)
			l.config(func(cfg *bpf.Config) { cfg.Pacer = bpf.PacerHTB })
			l.know(peer4, func(d *bpf.DestRegs) {
				d.StackRateBps, d.NextTxNs, d.TxPackets, d.TxBytes = c.old, uint64(labStart+c.backlog), 300, 100*(1250-14)+200*60
				d.EnginePackets, d.EngineBytes = 200, 200*60 // have passed by the class
			})
			slots[0].Key, slots[0].Op, slots[0].Regs = bpf.KeyOf(peer4), bpf.SetPolicy, bpf.DestRegs{StackRateBps: c.new}
			l.agentCall(bpf.AgentApply, 1)
			r := l.regs(peer4)
			// The ratio of rates is of units of 1024 bit/s.
			if off := int64(r.NextTxNs) - labStart - c.want; off < -10 || off > 10 {
				t.Errorf("waits %d ns, want %d", int64(r.NextTxNs)-labStart, c.want)
			}
		})
	}
}

// A rate of the engine alone does not change the HTB class, and echoes of its packets count
// until engine_sync has returned the new rate.
func TestAgentCallEngineRate(t *testing.T) {
	l := newLab(t)
	slots := l.callBuffer()
	l.config(func(cfg *bpf.Config) { cfg.Pacer = bpf.PacerHTB })
	l.know(peer4, func(d *bpf.DestRegs) {
		d.RateBps, d.StackRateBps, d.EngineRateBps, d.NextTxNs, d.ValidAfterNs = 8e6, 4e6, 8e6, labStart+3000, 5
	})
	apply := func(regs bpf.DestRegs) bpf.DestRegs {
		slots[0].Key, slots[0].Op, slots[0].Regs = bpf.KeyOf(peer4), bpf.SetPolicy, regs
		l.agentCall(bpf.AgentApply, 1)
		return l.regs(peer4)
	}
	if r := apply(bpf.DestRegs{RateBps: 8e6, StackRateBps: 4e6, EngineRateBps: 4e6}); r.EngineRateBps != 4e6 || r.NextTxNs != labStart+3000 || r.ValidAfterNs != 5 {
		t.Errorf("the engine's part: %+v", r)
	}
	if r := apply(bpf.DestRegs{RateBps: 8e6, StackRateBps: 2e6, EngineRateBps: 4e6}); r.StackRateBps != 2e6 || r.NextTxNs != labStart+6000 || r.ValidAfterNs != r.NextTxNs {
		t.Errorf("the stack's part: %+v", r)
	}
	l.know(peer4, func(d *bpf.DestRegs) {
		d.RateBps, d.StackRateBps, d.EngineRateBps, d.NextTxNs, d.ValidAfterNs = 8e6, 2e6, 4e6, labStart-3000, 5
	})
	if r := apply(bpf.DestRegs{RateBps: 8e6, StackRateBps: 4e6, EngineRateBps: 4e6}); r.StackRateBps != 4e6 || r.NextTxNs != labStart-3000 || r.ValidAfterNs != 5 {
		t.Errorf("the stack's part, and nothing of it waits: %+v", r)
	}
	l.know(peer4, func(d *bpf.DestRegs) {
		d.RateBps, d.StackRateBps, d.EngineRateBps, d.NextTxNs, d.ValidAfterNs = 8e6, 4e6, 4e6, labStart+3000, 5
	})
	if r := apply(bpf.DestRegs{RateBps: 6e6, StackRateBps: 4e6, EngineRateBps: 4e6}); r.RateBps != 6e6 || r.NextTxNs != labStart+3000 || r.ValidAfterNs != labStart+3000 {
		t.Errorf("the destination's rate: %+v", r)
	}
}

func TestAgentCallUnknownOperation(t *testing.T) {
	l := newLab(t)
	for _, op := range []uint32{0, 4, 1 << 31} {
		if n, err := bpf.RunAgentCall(l.objs.SoftroceAgentCall, op, 1); err == nil {
			t.Errorf("operation %d did %d slots", op, n)
		}
	}
}

// An agent that rests gets one event when a destination becomes active, and none otherwise.
func TestAgentRests(t *testing.T) {
	l := newLab(t)
	l.know(peer4, aware)
	l.know(peer6)
	both := func() {
		l.out(toPeer(t, write(64)))
		l.out(toPeer(t, over6(write(64))))
	}
	both()
	l.wantNoEvent() // nobody has asked
	rest := func() {
		l.must(l.objs.AgentRests.Put(uint32(0), uint32(1)))
	}
	rest()
	both()
	l.wantNoEvent() // they are active already: the agent finds them
	if n := l.agentCall(bpf.AgentCollect, bpf.AgentSlots); n != 2 {
		t.Fatalf("%d destinations, want 2", n)
	}
	both()
	l.wantEvent(bpf.EventActive, peer4)
	l.wantNoEvent() // one for both
	var rests uint32
	l.must(l.objs.AgentRests.Lookup(uint32(0), &rests))
	if rests != 0 {
		t.Error("the agent is woken again")
	}
	// What arrives, and what the engine sends, makes active too.
	for _, f := range []func(){
		func() {
			l.in(fromPeer(t, stamped(write(64), rocev2.Stamp{Flags: 3, T1: labStart - 700, EchoT1: labStart - 500, EchoT2: 5})))
		},
		func() { l.engineSync(bpf.EngineSlot{Key: bpf.KeyOf(peer4), TxPackets: 1, TxBytes: 100}) },
	} {
		l.agentCall(bpf.AgentCollect, bpf.AgentSlots)
		rest()
		f()
		l.wantEvent(bpf.EventActive, peer4)
	}
}
