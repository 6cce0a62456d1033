// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"

	"github.com/softroce/softroce-xdp/cc/fourcase"
)

func TestSplit(t *testing.T) {
	const rate = 100
	idle, all := party{}, party{waits: true}
	uses := func(bps uint64) party { return party{used: [3]uint64{bps, bps, bps}} }
	for _, c := range []struct {
		name                      string
		stack, engine             party
		wantOfStack, wantOfEngine uint64
	}{
		{"the stack alone", all, idle, 100, 50},
		{"the engine alone", idle, all, 50, 100},
		{"both want all", all, all, 50, 50},
		{"the stack needs little", uses(20), all, 50, 80},
		{"the engine needs little", all, uses(20), 80, 50},
		{"there is enough for both", uses(20), uses(30), 70, 80},
		{"one uses more than half, and the other wants all", uses(70), all, 50, 50},
		{"one packet now and then", party{used: [3]uint64{60, 0, 0}}, all, 50, 100},
		{"nobody", idle, idle, 100, 100},
	} {
		x := sender{stack: c.stack, engine: c.engine}
		if stack, engine := x.split(rate); stack != c.wantOfStack || engine != c.wantOfEngine {
			t.Errorf("%s: %d for the stack and %d for the engine, want %d and %d", c.name, stack, engine, c.wantOfStack, c.wantOfEngine)
		}
	}
	x := sender{stack: all}
	if stack, engine := x.split(0); stack != 0 || engine != 0 {
		t.Error("what is not paced has no parts")
	}
	if stack, engine := x.split(1); stack == 0 || engine == 0 {
		t.Error("a part of 0 would be no limit")
	}
}

// Kernel stack and engine start, stop and change their demand at one destination.
func TestSplitByDemand(t *testing.T) {
	p := play(1e9, playLink, fourcase.ModeFixed, 1)
	d := p.dests[0]
	const greedy = 10 * playLink
	// From here on, within so many evaluations, each sends this; the sum is never above the
	// rate by more than what comes new in one tick.
	step := func(what string, evaluations int, stack, engine, wantStack, wantEngine uint64) {
		t.Helper()
		d.stack, d.engine = stack, engine
		p.ticks(evaluations)
		for range 20 {
			p.ticks(1)
			if sum := d.sent[0] + d.sent[1]; sum > playLink+playLink/20 {
				t.Errorf("%s: %d and %d are sent, more than the rate", what, d.sent[0], d.sent[1])
				return
			}
			if !near(d.sent[0], wantStack) || !near(d.sent[1], wantEngine) {
				t.Errorf("%s: %d and %d are sent, want %d and %d", what, d.sent[0], d.sent[1], wantStack, wantEngine)
				return
			}
		}
	}
	const link = playLink
	step("the stack alone", 1, greedy, 0, link, 0)
	step("the engine comes", 1, greedy, greedy, link/2, link/2)
	step("the stack stops", 1, 0, greedy, 0, link)
	step("the stack comes", 1, greedy, greedy, link/2, link/2)
	step("the engine stops", staleTicks, greedy, 0, link, 0)
	step("the engine needs little", staleTicks+1, greedy, link/10, link*9/10, link/10)
	step("the stack needs little", 3, link/5, greedy, link/5, link*4/5)
	step("enough for both", 3, link/5, link/5, link/5, link/5)
	if d.regs.RateBps != link || d.regs.Policy.RateBps != link {
		t.Errorf("the destination's rate is %d, the policy's %d, want %d", d.regs.RateBps, d.regs.Policy.RateBps, uint64(link))
	}
}

// The policy's rate is one, and "uses its rate" is of both together: two that have half
// each use all of it, so that it is raised.
func TestSplitRateIsUsed(t *testing.T) {
	p := play(1e9, playLink, fourcase.ModeRobust, 1)
	d := p.dests[0]
	d.stack, d.engine = 1e9, 1e9
	p.ticks(5)
	if d.regs.Policy.RateBps <= playLink {
		t.Errorf("the rate is %d after five evaluations without a queue, and was %d", d.regs.Policy.RateBps, playLink)
	}
	p.ticks(200)
	if got := d.sent[0] + d.sent[1]; !near(got, 1e9) || !near(d.sent[0], 5e8) {
		t.Errorf("%d and %d are sent, want half of 1 Gbit/s each", d.sent[0], d.sent[1])
	}
}
