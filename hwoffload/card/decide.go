// SPDX-License-Identifier: Apache-2.0

package card

import (
	"unsafe"

	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/loop"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// wordsOf views a structure of 64-bit words as the registers that it has the layout of.
func wordsOf[T fourcase.Regs | fourcase.Params](p *T) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(p)), unsafe.Sizeof(*p)/8)
}

// decide makes one step of the policy for an entry, and starts a new window, if there is one
// to evaluate. The mode must be literal, as the RTL has no other one, and
// the parameters valid.
func (m *Model) decide(element int) bool {
	d := regs.DestOf(inside{m}, element)
	var p fourcase.Params
	params := wordsOf(&p)
	for i := range params {
		params[i] = m.read64(regs.FourcaseBase + uint64(i)*8)
	}
	if d.QueuedWord().Queued() == 0 || p.Mode != fourcase.ModeLiteral || p.Validate() != nil {
		return false
	}
	now := m.now()
	sample := sampleOf(d)
	d.SetQueuedWord(d.QueuedWord().WithQueued(0))
	newWindow(d)

	var r fourcase.Regs
	words := wordsOf(&r)
	base := regs.DestBase + uint64(element)*regs.DestStride + regs.DestPolicyRateBpsOffset
	for i := range words {
		words[i] = m.read64(base + uint64(i)*8)
	}
	// A card by itself has no bound but the policy.
	bounds := loop.Bounds{loop.BoundPolicy: fourcase.Step(&r, &p, sample, now).RateBps}
	rate, bound := bounds.Rate()
	for i, w := range words {
		m.write64(base+uint64(i)*8, w)
	}
	setRates(d, rates{rate, rate, rate, uint32(bound)}, now)
	return true
}

// sampleOf is the policy's sample of a window, as far as mode literal uses it. A card has data
// to send whenever it decides.
func sampleOf(d regs.Dest) fourcase.Sample {
	s := fourcase.Sample{Idle: d.TxPackets() == 0} // before any data was sent, queues have no packets of this card
	if d.WinRttNs() != noSample {
		s.RTT, s.Samples = d.WinRttNs(), 1
	}
	if d.WinSamples() > 0 && d.WinTxNs() != noSample {
		s.Samples, s.Tx, s.Rx = d.WinSamples(), d.WinTxNs(), d.WinRxNs()
	}
	return s
}
