// SPDX-License-Identifier: Apache-2.0

package agent

import "github.com/softroce/softroce-xdp/bpf"

// A destination has one rate, whoever on this host sends to it (S1.9): the host's stack,
// paced in TC, and the engine, which paces itself, share it by demand. Half of it is each
// one's for the asking, and each has what the other leaves. Who is idle keeps its half as
// the rate of its first packets, which fq would not let go any sooner afterwards; the next
// evaluation takes it off the other.

// claim is what a party has of a destination's rate before the other.
func (p *party) claim(rate uint64) uint64 {
	if p.waits {
		return rate / 2
	}
	return min(p.steady(), rate/2)
}

// split divides the rate. 0 is unpaced, for both.
func (x *sender) split(rate uint64) (stack, engine uint64) {
	if rate == 0 {
		return 0, 0
	}
	return max(rate-x.engine.claim(rate), 1), max(rate-x.stack.claim(rate), 1)
}

// splitShift: a part stays as it is until it is off by 1/2^splitShift of the rate. Each
// change makes echoes of packets in flight worthless, and costs a netlink request.
const splitShift = 6

// setRates puts the destination's rate and its parts into the slot if they are new. exact:
// who gets the whole rate gets no more and no less.
func (a *Agent) setRates(slot *bpf.ExchangeSlot, x *sender, rate uint64, exact bool) {
	d := &slot.Regs
	stack, engine := x.split(rate)
	stack, engine = x.stack.part(d.StackRateBps, stack, rate, exact), x.engine.part(d.EngineRateBps, engine, rate, exact)
	if rate == d.RateBps && stack == d.StackRateBps && engine == d.EngineRateBps {
		return
	}
	if d.ClassId != 0 && stack != d.StackRateBps {
		a.setClass(slot, stack)
	}
	d.RateBps, d.StackRateBps, d.EngineRateBps = rate, stack, engine
	slot.Op |= bpf.SetPolicy
}

// part is what a party gets: what it has if that is near enough, or if it is idle and will
// do for its first packets.
func (p *party) part(has, want, rate uint64, exact bool) uint64 {
	idle := !p.waits && p.used[0] == 0
	near := !(exact && want == rate) && max(has, want)-min(has, want) <= rate>>splitShift
	if near || idle && has >= rate/2 && has <= rate {
		return has
	}
	return want
}
