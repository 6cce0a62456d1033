// SPDX-License-Identifier: Apache-2.0

package card

import "github.com/softroce/softroce-xdp/hwoffload/regs"

// The commands of block calls, by which the policy loop reads and changes entries of the
// destination table. They do what the program softroce_agent_call of the data plane does
// (bpf/lib/agent_call.h), and leave the same bits.

// Bits of apply_set: enum sr_agent_set of bpf/lib/abi.h.
const (
	setPolicy   = 1 << 0
	setClass    = 1 << 1
	setNode     = 1 << 2
	setCaps     = 1 << 3
	shiftNextTx = 1 << 4
	keepEchoes  = 1 << 5
)

// destBytes is the length of an entry, and of buffer.
const destBytes = regs.CallsBufferCount * regs.CallsBufferStride

// buffered accesses an entry in buffer by the addresses of element 0 of block dest.
type buffered struct{ m *Model }

const bufferShift = 0x10000000000000000 + regs.CallsBase + regs.CallsBufferOffset - regs.DestBase

func (b buffered) R32(addr uint64) uint32    { return b.m.read(addr + bufferShift) }
func (b buffered) W32(addr uint64, v uint32) { b.m.write(addr+bufferShift, v) }
func (b buffered) R64(addr uint64) uint64    { return b.m.read64(addr + bufferShift) }
func (b buffered) W64(addr uint64, v uint64) { b.m.write64(addr+bufferShift, v) }

// calls executes the commands of a write to block calls.
func (m *Model) calls(offset uint64, bits uint32) {
	switch offset {
	case regs.CallsCollectOffset:
		if v := regs.CallsCollect(bits); v.CollectStart() {
			m.done(m.collect(int(v.CollectElement())))
		}
	case regs.CallsApplyOffset:
		if v := regs.CallsApply(bits); v.ApplyStart() {
			m.apply(int(v.ApplyElement()), v.ApplySet())
			m.data.rateChanged()
			m.done(true)
		}
	case regs.CallsDecideOffset:
		if v := regs.CallsDecide(bits); v.DecideStart() {
			m.done(m.decide(int(v.DecideElement())))
			m.data.rateChanged()
		}
	}
}

// done sets the result of a command.
func (m *Model) done(ok bool) {
	m.put(regs.CallsBase+regs.CallsResultOffset, uint32(regs.CallsResult(0).WithDone(ok)))
}

// collect copies an entry to buffer and starts a new window, if there is one to evaluate. In
// buffer, queued is 0.
func (m *Model) collect(element int) bool {
	d := regs.DestOf(inside{m}, element)
	if d.QueuedWord().Queued() == 0 {
		return false
	}
	d.SetQueuedWord(d.QueuedWord().WithQueued(0))
	for at := uint64(0); at < destBytes; at += 8 {
		m.write64(regs.CallsBase+regs.CallsBufferOffset+at, m.read64(regs.DestBase+uint64(element)*regs.DestStride+at))
	}
	newWindow(d)
	return true
}

// newWindow starts a new window of samples.
func newWindow(d regs.Dest) {
	d.SetWinTxNs(noSample)
	d.SetWinRxNs(noSample)
	d.SetWinRttNs(noSample)
	d.SetWinSamples(0)
	d.SetWinCe(0)
	d.SetWinLoss(0)
	d.SetWinPaced(0)
	d.SetWinEnginePaced(0)
	d.SetWinEngineWord(d.WinEngineWord().WithWinEngine(0))
	d.SetCreditSeqWord(d.CreditSeqWord().WithWinRnr(0))
	d.SetWinDueWord(0)
}

// apply writes the registers that set names from buffer.
func (m *Model) apply(element int, set uint32) {
	d, from := regs.DestOf(inside{m}, element), regs.DestOf(buffered{m}, 0)
	now := m.now()
	if set&setPolicy != 0 {
		const first = regs.DestPolicyRateBpsOffset // the policy's registers are the last of an entry
		for at := uint64(first); at < destBytes; at += 8 {
			m.write64(regs.DestBase+uint64(element)*regs.DestStride+at, m.read64(regs.CallsBase+regs.CallsBufferOffset+at))
		}
		setRates(d, rates{from.RateBps(), from.StackRateBps(), from.EngineRateBps(), from.WinEngineWord().Bound()}, now)
	}
	if set&setClass != 0 {
		d.SetClassId(from.ClassId())
	}
	if set&setNode != 0 {
		d.SetNode(from.Node())
	}
	if set&setCaps != 0 {
		d.SetCapsWord(d.CapsWord().WithCaps(from.CapsWord().Caps()))
	}
	if set&shiftNextTx != 0 {
		d.SetNextTxNs(d.NextTxNs() + m.read64(regs.CallsBase+regs.CallsShiftNsOffset))
		if set&keepEchoes == 0 {
			settle(d, now)
		}
	}
}

// rates are the three rates of an entry, in bits per second, and the bound that sets them.
type rates struct {
	all, stack, engine uint64
	bound              uint32
}

// setRates sets the three rates and the bound. Echoes of packets that left before do not measure a changed
// rate, and those of packets that wait neither.
//
// The card has no rate for packets of a kernel stack, so next_tx_ns is the time at which the
// next packet leaves, and a packet that waits for it leaves then.
func setRates(d regs.Dest, to rates, now uint64) {
	changed := d.RateBps() != to.all
	if d.StackRateBps() != to.stack {
		changed = changed || int64(d.NextTxNs()-now) > 0
		d.SetStackRateBps(to.stack)
	}
	if changed {
		settle(d, now)
	}
	d.SetRateBps(to.all)
	d.SetEngineRateBps(to.engine)
	d.SetWinEngineWord(d.WinEngineWord().WithBound(to.bound))
}

// settle ignores echoes of packets that leave before the packets that wait.
func settle(d regs.Dest, now uint64) {
	if empty := d.NextTxNs(); int64(empty-now) > 0 {
		now = empty
	}
	d.SetValidAfterNs(now)
}
