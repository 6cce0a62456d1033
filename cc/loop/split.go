// SPDX-License-Identifier: Apache-2.0

package loop

import "github.com/softroce/softroce-xdp/bpf"

// A destination has one rate (S1.9). The kernel stack, paced in TC, and the engine, which
// paces itself, share it by demand. Each gets up to half of the rate if it has data, and the
// rest that the other does not use. An idle sender keeps its half as the rate of its first
// packets: fq does not change the departure times of packets that wait. The next evaluation
// takes that half from the other sender.

// claim returns the part of a destination's rate that the party gets before the other one.
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

// splitShift: a part changes only by more than 1/2^splitShift of the rate. Each change
// invalidates echoes of packets in flight, and costs a netlink request.
const splitShift = 6

// setRates sets the destination's rate and its parts if they have changed. exact: a part
// that is the whole rate is set exactly.
func (l *Loop) setRates(st *step, rate uint64, exact bool) {
	x := st.sender
	stack, engine := x.split(rate)
	stack, engine = x.stack.part(st.stackRate, stack, rate, exact), x.engine.part(st.engineRate, engine, rate, exact)
	if rate == st.rate && stack == st.stackRate && engine == st.engineRate {
		return
	}
	if st.class != 0 && stack != st.stackRate {
		st.setClass(l.classFor(st.key, st.class, stack))
	}
	st.rate, st.stackRate, st.engineRate = rate, stack, engine
	st.set |= bpf.SetPolicy
}

// part returns the part that a party gets: the present one (has) if it is near enough to
// want, or if the party is idle and the present part suffices for its first packets.
func (p *party) part(has, want, rate uint64, exact bool) uint64 {
	idle := !p.waits && p.used[0] == 0
	near := !(exact && want == rate) && max(has, want)-min(has, want) <= rate>>splitShift
	if near || idle && has >= rate/2 && has <= rate {
		return has
	}
	return want
}
