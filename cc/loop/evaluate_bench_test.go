// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
)

// BenchmarkEvaluate is what an evaluation costs for each destination: a batch of slots, whose
// senders have data, is evaluated on and on. Divide by bpf.AgentSlots.
func BenchmarkEvaluate(b *testing.B) {
	const link = uint64(100e9)
	p := play(link, link/bpf.AgentSlots, fourcase.ModeRobust, bpf.AgentSlots)
	slots := make([]bpf.AgentSlot, len(p.dests))
	for b.Loop() {
		p.now += playTick
		for i, d := range p.dests {
			d.stack = link
			d.send(p.now)
			slots[i] = bpf.AgentSlot{Key: d.key, Found: 1, Regs: d.regs}
		}
		params := *bpf.ParamsAs[fourcase.Params](&p.l.cfg.Policy)
		p.l.senders.begin(p.now)
		p.l.evaluateSlots(slots, &params, true, p.now, p.now)
		for i, d := range p.dests {
			d.regs.Policy, d.regs.RateBps = slots[i].Regs.Policy, slots[i].Regs.RateBps
		}
	}
}
