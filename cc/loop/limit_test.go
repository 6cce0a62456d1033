// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/priority"
)

// limitedPlay is two destinations that get as much as they may, and the limit of the first one.
func limitedPlay(mode fourcase.Mode) (p *player, limit *bpf.RateLimit) {
	p, limit = play(playLink, playLink/2, mode, 2), &bpf.RateLimit{}
	for _, d := range p.dests {
		d.stack, d.engine = playLink, playLink
	}
	p.l.limit = func(key bpf.DestKey, now uint64) uint64 {
		if key == p.dests[0].key && now < limit.UntilNs {
			return limit.RateBps
		}
		return 0
	}
	return p, limit
}

// A destination is sent to at the lesser of its limit and the policy's rate until the life of the
// limit ends: by the kernel stack and the engine together, which both have data.
func TestLimitIsObeyedForItsLife(t *testing.T) {
	for _, mode := range []fourcase.Mode{fourcase.ModeRobust, fourcase.ModeLiteral, fourcase.ModeFixed} {
		p, limit := limitedPlay(mode)
		p.ticks(300)
		free := p.dests[0].regs.RateBps
		if free < playLink/3 {
			t.Fatalf("%v: %d bit/s without a limit", mode, free)
		}
		*limit = bpf.RateLimit{RateBps: 8e6, UntilNs: p.now + second}
		for p.now+playTick < limit.UntilNs {
			p.ticks(1)
			if r := &p.dests[0].regs; r.RateBps != 8e6 || r.StackRateBps+r.EngineRateBps > 8e6 {
				t.Fatalf("%v: rates %d, %d and %d, the limit is 8 Mbit/s", mode, r.RateBps, r.StackRateBps, r.EngineRateBps)
			}
			if r := &p.dests[1].regs; r.RateBps < playLink/3 {
				t.Fatalf("%v: the other destination has %d bit/s", mode, r.RateBps)
			}
		}
		p.ticks(1)
		if got := p.dests[0].regs.RateBps; got <= 8e6 || mode != fourcase.ModeFixed && got > maxAhead*8e6*5/4 {
			t.Errorf("%v: %d bit/s just after the limit", mode, got)
		}
		p.ticks(1000)
		if got := p.dests[0].regs.RateBps; got < free*9/10 {
			t.Errorf("%v: %d bit/s ten seconds after the limit, %d before", mode, got, free)
		}
	}
}

// What a destination does not take is free for the others.
func TestLimitLeavesTheRest(t *testing.T) {
	for _, mode := range []fourcase.Mode{fourcase.ModeRobust, fourcase.ModeLiteral} {
		p, limit := limitedPlay(mode)
		p.ticks(100)
		*limit = bpf.RateLimit{RateBps: 8e6, UntilNs: p.now + 100*second}
		p.ticks(1000)
		if got, want := p.dests[1].regs.RateBps, playLink-8e6; got < want*95/100 || got > want*105/100 {
			t.Errorf("%v: the other destination has %d bit/s, %d are free", mode, got, want)
		}
	}
}

// The same with priorities of the nodes: a destination of level 1 whose limit is low leaves the
// rest to level 2.
func TestLimitLeavesTheRestToLowerLevels(t *testing.T) {
	l := twoLevels()
	params := fourcase.DefaultParams(100e6)
	var rates [2]uint64
	for now := 1000 * second; now < 1001*second; now += playTick {
		for i, limit := range []uint64{20e6, 0} {
			st := &step{key: keyN(byte(i + 1)), regs: &bpf.DestRegs{WinPaced: 1}, sampled: true, policy: fourcase.Regs{RateBps: 100e6}, limit: limit}
			rates[i] = l.bounded(st, &params, params.MaxRateBps, now)
		}
		l.ShareOut(now)
	}
	if want := [2]uint64{20e6, 80e6}; rates != want {
		t.Errorf("rates %d, want %d", rates, want)
	}
}

// A limit above the policy's rate changes nothing.
func TestLimitAboveThePolicy(t *testing.T) {
	p, limit := limitedPlay(fourcase.ModeRobust)
	*limit = bpf.RateLimit{RateBps: playLink, UntilNs: p.now + 10*second}
	p.ticks(300)
	p.wantEach(t, "a limit of the whole link", playLink/2)
}

// With priority off, the four-case policy alone sets the rates.
func TestLimitIgnoredWithPriorityOff(t *testing.T) {
	p, limit := limitedPlay(fourcase.ModeRobust)
	prio, _ := bpf.PriorityAs[priority.Params, priority.State](p.l.cfg)
	prio.Mode = priority.ModeOff
	*limit = bpf.RateLimit{RateBps: 8e6, UntilNs: p.now + 10*second}
	p.ticks(300)
	p.wantEach(t, "priority off", playLink/2)
}
