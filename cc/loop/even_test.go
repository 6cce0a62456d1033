// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
)

// Destinations come and go: the link is shared out again (S1.2), within an evaluation.
func TestLinkShare(t *testing.T) {
	for _, mode := range []fourcase.Mode{fourcase.ModeRobust, fourcase.ModeFixed} {
		t.Run(mode.String(), func(t *testing.T) {
			p := play(playLink, playLink, mode, 4)
			send := func(n int) {
				for i, d := range p.dests {
					d.stack, d.engine = 0, 0
					if i < n {
						d.stack = 2 * playLink
					}
				}
			}
			step := func(what string, n, evaluations int, want uint64) {
				t.Helper()
				send(n)
				p.ticks(evaluations)
				for range 20 {
					if _, sum := p.rates(); sum > playLink+playLink/20 {
						t.Fatalf("%s: the rates' sum is %d, more than the link's %d", what, sum, playLink)
					}
					p.wantEach(t, what, want)
					p.ticks(1)
				}
			}
			step("one alone", 1, 1, playLink)
			step("four", 4, 1, playLink/4)
			step("two are left", 2, staleTicks+1, playLink/2)
			step("one is left", 1, staleTicks+1, playLink)
			step("three", 3, 1, playLink/3)
		})
	}
}

// Who wants little leaves the rest to the others, and has its even share as soon as it
// wants it.
func TestLinkShareByDemand(t *testing.T) {
	p := play(playLink, playLink, fourcase.ModeRobust, 3)
	for _, d := range p.dests {
		d.stack = 2 * playLink
	}
	little := p.dests[0]
	little.stack = playLink / 10
	p.ticks(5)
	if a, b := p.dests[1].sent[0], p.dests[2].sent[0]; !near(a, playLink*45/100) || !near(b, playLink*45/100) || !near(little.sent[0], playLink/10) {
		t.Errorf("%d, %d and %d are sent, want a tenth, and half of the rest each", little.sent[0], a, b)
	}
	little.stack = 2 * playLink
	p.ticks(2)
	p.wantEach(t, "all three want all", playLink/3)

	// Its way is congested elsewhere: what it cannot use is the others'.
	little.regs.Policy.RateBps = playLink / 10
	little.queue = 10e6
	p.ticks(3)
	if got := p.dests[1].regs.RateBps; got < playLink*42/100 {
		t.Errorf("a third of the link is idle: %d for the others", got)
	}
	if _, sum := p.rates(); sum > playLink+playLink/20 {
		t.Errorf("the rates' sum is %d", sum)
	}
}

// A share is no congestion and no lack of data: the policy neither cuts for it nor forgets
// what it had found, and does not climb behind it either.
func TestLinkShareIsNoCongestion(t *testing.T) {
	p := play(playLink, playLink, fourcase.ModeRobust, 2)
	slow := p.dests[0]
	slow.regs.Policy.RateBps, slow.stack = playLink*3/5, 2*playLink // found before: 60 % of the link
	slow.regs.Policy.Decisions = 100
	p.ticks(1)
	found := slow.regs.Policy.RateBps
	p.dests[1].stack = 2 * playLink
	p.ticks(1)
	p.wantEach(t, "two", playLink/2)
	p.ticks(300)
	p.wantEach(t, "two", playLink/2)
	if r := &slow.regs.Policy; r.Decreases != 0 {
		t.Errorf("%d cuts without a queue", r.Decreases)
	}
	p.dests[1].stack = 0
	p.ticks(staleTicks + 1)
	if got := slow.regs.RateBps; got < found || got > found+found/10 {
		t.Errorf("alone again it has %d, want what it had: %d, and a few raises", got, found)
	}
}

// A queue that is there while the share holds the rate counts: the rate is cut at once,
// and does not come back to what it was before.
func TestLinkShareSeesCongestion(t *testing.T) {
	p := play(playLink, playLink, fourcase.ModeRobust, 2)
	for _, d := range p.dests {
		d.stack = 2 * playLink
	}
	p.ticks(10)
	p.dests[0].queue = 40e6
	p.ticks(3)
	if got := p.dests[0].regs.RateBps; got > playLink*45/100 {
		t.Errorf("the rate is %d with 40 ms of queue", got)
	}
	p.ticks(20)
	p.dests[1].stack = 0
	p.ticks(staleTicks + 1)
	if got := p.dests[0].regs.RateBps; got > playLink/4 {
		t.Errorf("congested, and alone on the link it has %d", got)
	}
}

// One after the other: who turns to many destinations within an evaluation is not held
// to a share of the link.
func TestLinkShareOneAfterTheOther(t *testing.T) {
	p := play(playLink, playLink, fourcase.ModeRobust, 40)
	var sum uint64
	const ticks = 400
	for i := range ticks {
		for j, d := range p.dests {
			d.stack = 0
			if j/4 == i%10 {
				d.stack = playLink / 4 // each for a quarter of the tick: none waits
			}
		}
		p.ticks(1)
		for _, d := range p.dests {
			sum += d.sent[0]
		}
	}
	if got := sum / ticks; !near(got, playLink) {
		t.Errorf("%d bit/s of %d", got, playLink)
	}
}

// BenchmarkShare is what the shares of an evaluation cost with a thousand destinations, in
// slots of 128 as the agent has them; most want little, some wait.
func BenchmarkShare(b *testing.B) {
	var s senders
	p := fourcase.DefaultParams(10e9)
	slots := make([]bpf.AgentSlot, 1000)
	for i := range slots {
		slots[i].Key.Addr[14], slots[i].Key.Addr[15] = byte(i>>8), byte(i)
		slots[i].Regs.Policy.RateBps = 10e9
	}
	now := uint64(1000 * second)
	for b.Loop() {
		now += 200e6
		s.begin(now)
		for i := 0; i < len(slots); i += bpf.AgentSlots {
			batch := slots[i:min(i+bpf.AgentSlots, len(slots))]
			for j := range batch {
				batch[j].Regs.TxBytes += uint64(1000 * j)
				batch[j].Regs.NextTxNs = now - 1 + uint64(j%10/9*2)
				s.note(batch[j].Key, &batch[j].Regs, &bpf.Config{Mtu: 1500}, now)
			}
			s.shareLink(10e9, &p)
		}
	}
}
