// SPDX-License-Identifier: Apache-2.0

package card

import (
	"sync"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
)

const callsToken = 7

// known makes an entry that accepts stamps.
func known(m *Model, element int) regs.Dest {
	d := regs.DestOf(m, element)
	d.SetRxToken(callsToken)
	d.SetWinTxNs(noSample)
	d.SetWinRxNs(noSample)
	d.SetWinRttNs(noSample)
	return d
}

func collect(m *Model, element uint32) bool {
	c := regs.CallsOf(m)
	c.SetCollect(regs.CallsCollect(0).WithCollectElement(element).WithCollectStart(true))
	return c.Result().Done()
}

func apply(m *Model, element, set uint32) bool {
	c := regs.CallsOf(m)
	c.SetApply(regs.CallsApply(0).WithApplyElement(element).WithApplySet(set).WithApplyStart(true))
	return c.Result().Done()
}

// echoAt is feedback to data that left at t1 and took 5 ns.
func echoAt(t1 uint64) *Packet {
	return &Packet{Bytes: 48, Feedback: true, Stamp: rocev2.Stamp{
		Flags: rocev2.StampT1 | rocev2.StampEcho | rocev2.StampCE, Token: callsToken, T1: t1 + 6, EchoT1: t1, EchoT2: t1 + 5}}
}

// A packet makes its entry active. Collect copies the entry and starts a new window, once.
func TestCollect(t *testing.T) {
	m := New()
	for _, i := range []int{0, 33, regs.DestCount - 1} {
		d, c := known(m, i), regs.CallsOf(m)
		if c.Active(i/32) != 0 || collect(m, uint32(i)) {
			t.Fatalf("element %d is active before a packet", i)
		}
		m.Receive(i+1, echoAt(10), 18)
		if got, want := c.Active(i/32), uint32(1)<<(i%32); got != want {
			t.Errorf("element %d: active %#x, want %#x", i, got, want)
		}
		c.SetCollect(regs.CallsCollect(0).WithCollectElement(uint32(i))) // start is 0
		if d.WinSamples() != 1 {
			t.Error("a command without start is executed")
		}
		if !collect(m, uint32(i)) || collect(m, uint32(i)) {
			t.Errorf("element %d is not collected once", i)
		}
		b := regs.DestOf(buffered{m}, 0)
		if b.TxNs() != 5 || b.WinTxNs() != 5 || b.WinRttNs() != 8 || b.WinSamples() != 1 || b.WinCe() != 1 || b.RxPackets() != 1 || b.QueuedWord() != 0 {
			t.Errorf("element %d: buffer has %d %d %d %d %d %d %#x", i, b.TxNs(), b.WinTxNs(), b.WinRttNs(), b.WinSamples(), b.WinCe(), b.RxPackets(), b.QueuedWord())
		}
		if c.Active(i/32) != 0 || d.WinTxNs() != noSample || d.WinSamples() != 0 || d.WinCe() != 0 || d.TxNs() != 5 {
			t.Errorf("element %d: no new window", i)
		}
	}
}

// Apply writes what set names, and nothing else.
func TestApply(t *testing.T) {
	const element, now = 5, 1000
	for _, c := range []struct {
		name string
		set  uint32
		next uint64 // next_tx_ns before
		want func(d regs.Dest)
	}{
		{"nothing", 0, 0, func(regs.Dest) {}},
		{"class", setClass, 0, func(d regs.Dest) { d.SetClassId(101) }},
		{"node", setNode, 0, func(d regs.Dest) { d.SetNode(102) }},
		{"caps", setCaps, 0, func(d regs.Dest) { d.SetCapsWord(103) }},
		{"rates", setPolicy, now - 1, func(d regs.Dest) {
			d.SetPolicyRateBps(104)
			d.SetPolicyCaseNoWord(105)
			d.SetRateBps(106)
			d.SetStackRateBps(107)
			d.SetEngineRateBps(108)
			d.SetValidAfterNs(now)
		}},
		{"rates while packets wait", setPolicy | setClass, now + 1, func(d regs.Dest) {
			d.SetPolicyRateBps(104)
			d.SetPolicyCaseNoWord(105)
			d.SetRateBps(106)
			d.SetStackRateBps(107)
			d.SetEngineRateBps(108)
			d.SetClassId(101)
			d.SetValidAfterNs(now + 1)
		}},
		{"shift", shiftNextTx, now, func(d regs.Dest) {
			d.SetNextTxNs(now - 30)
			d.SetValidAfterNs(now)
		}},
		{"shift, echoes stay valid", shiftNextTx | keepEchoes, now + 50, func(d regs.Dest) { d.SetNextTxNs(now + 20) }},
	} {
		m := NewAt(func() uint64 { return now })
		want := NewAt(func() uint64 { return now })
		for _, x := range []*Model{m, want} {
			d := known(x, element)
			d.SetTxPackets(9)
			d.SetNextTxNs(c.next)
		}
		b := regs.DestOf(buffered{m}, 0)
		b.SetClassId(101)
		b.SetNode(102)
		b.SetCapsWord(103)
		b.SetPolicyRateBps(104)
		b.SetPolicyCaseNoWord(105)
		b.SetRateBps(106)
		b.SetStackRateBps(107)
		b.SetEngineRateBps(108)
		b.SetTxPackets(109)
		regs.CallsOf(m).SetShiftNs(^uint64(29)) // -30
		if !apply(m, element, c.set) {
			t.Errorf("%s: the result is 0", c.name)
		}
		c.want(regs.DestOf(want, element))
		for at := uint64(regs.DestBase); at < regs.DestBase+8*regs.DestStride; at += 8 {
			if got, want := m.R64(at), want.R64(at); got != want {
				t.Errorf("%s: %#x at %#x, want %#x", c.name, got, at, want)
			}
		}
	}
}

// Rates that do not change leave echoes valid, and a change of the kernel stack's part alone
// does so if no packet waits.
func TestApplySameRates(t *testing.T) {
	m := NewAt(func() uint64 { return 1000 })
	d, b := known(m, 0), regs.DestOf(buffered{m}, 0)
	b.SetStackRateBps(4)
	apply(m, 0, setPolicy)
	if d.ValidAfterNs() != 0 || d.StackRateBps() != 4 {
		t.Errorf("valid after %d, stack %d", d.ValidAfterNs(), d.StackRateBps())
	}
	d.SetNextTxNs(1001)
	b.SetStackRateBps(5)
	apply(m, 0, setPolicy)
	if d.ValidAfterNs() != 1001 {
		t.Errorf("valid after %d, want 1001", d.ValidAfterNs())
	}
}

// No packet is lost between two windows, and none is counted in both.
func TestCollectIsOneStep(t *testing.T) {
	const packets = 20_000
	m := New()
	d := known(m, 0)
	var all sync.WaitGroup
	done := make(chan struct{})
	all.Go(func() {
		defer close(done)
		for i := range uint64(packets) {
			m.Receive(1, echoAt(10+i), 20+i)
		}
	})
	var samples, ces uint32
	for more := true; more; {
		select {
		case <-done:
			more = false
		default:
		}
		if collect(m, 0) {
			b := regs.DestOf(buffered{m}, 0)
			m.lock.Lock()
			samples, ces = samples+b.WinSamples(), ces+b.WinCe()
			m.lock.Unlock()
		}
	}
	all.Wait()
	if samples != packets || ces != packets || d.WinSamples() != 0 || m.Err() != nil {
		t.Errorf("%d samples and %d CE in all windows, want %d; %v", samples, ces, packets, m.Err())
	}
}

// The two halves of the clock are of one time.
func TestClock(t *testing.T) {
	now := uint64(1<<32 - 1)
	m := NewAt(func() uint64 { now++; return now })
	const addr = regs.CallsBase + regs.CallsNowNsOffset
	if got := m.R64(addr); got != 1<<32 {
		t.Errorf("now_ns is %#x", got)
	}
	now = 1<<33 - 2
	if lo, hi := m.R32(addr), m.R32(addr+4); lo != ^uint32(0) || hi != 1 {
		t.Errorf("halves %#x %#x", lo, hi)
	}
}
