// SPDX-License-Identifier: Apache-2.0

package fourcase

import (
	"slices"
	"testing"
	"time"
)

// What looks like congestion and is none, and what looks like none and is.

// emulated are hosts that stand still for up to 20 ms, several times in each
// window, as emulated machines on a busy host do.
func emulated(f *fluid) { f.stallEvery, f.stallMax = 8*ms, 20*ms }

// emulatedBusy is what was recorded between two emulated machines: the agent, too,
// gets the processor only now and then, and a window has a few dozen echoes or less.
func emulatedBusy(f *fluid) {
	f.stallEvery, f.stallMax, f.tick, f.buffer = 20*ms, 130*ms, 200*ms, 300*ms
	f.coarse, f.run, f.warm, f.start = true, 120*sec, 20*sec, f.capacity
}

// alone is one sender on a path of its own.
func alone(link uint64) func(*fluid) {
	return func(f *fluid) { f.senders, f.link, f.capacity, f.warm = 1, link, link, 3*sec }
}

// onOff takes half of the bottleneck, two seconds in four.
func onOff(t time.Duration) uint64 { return 500 * mbit * uint64(t/(2*sec)%2) }

func TestFluidNoise(t *testing.T) {
	for _, c := range []struct {
		name      string
		f         fluid
		util      float64 // smallest utilisation
		p99       time.Duration
		lossBelow float64
		jain      float64
	}{
		{name: "1:1, a third of the packets late by up to 10 ms", f: incast(alone(gbit), func(f *fluid) { f.tail = 0.33 }), util: 0.95},
		{name: "the same at 10 Mbit/s, 8 packets a window", f: incast(alone(10*mbit), func(f *fluid) { f.tail, f.buffer = 0.33, 100*ms }), util: 0.95, p99: 20 * ms},
		{name: "1:1, hosts stand still for up to 20 ms", f: incast(alone(gbit), emulated), util: 0.9},
		{name: "the same at 10 Gbit/s", f: incast(alone(10*gbit), emulated), util: 0.9},
		{name: "the same, 80 Mbit/s behind 10 Gbit/s", f: incast(deep(80*mbit), emulated, func(f *fluid) { f.buffer = 100 * ms }), util: 0.9, p99: 30 * ms},
		{name: "8:1, hosts stand still for up to 20 ms", f: incast(emulated), util: 0.95, lossBelow: 0.02},
		{name: "emulated hosts: 100 Mbit/s behind 10 Gbit/s, evaluated every 200 ms", f: incast(deep(100*mbit), emulatedBusy), util: 0.85},
		{name: "the same, 4 senders", f: incast(deep(100*mbit), emulatedBusy, func(f *fluid) { f.senders = 4 }), util: 0.85, jain: 0.92},
		{name: "1:1, 0.5 % random loss", f: incast(alone(gbit), func(f *fluid) { f.lossy = 0.005 })},
		{name: "1:1, 5 % random loss", f: incast(alone(gbit), func(f *fluid) { f.lossy = 0.05 })},
		{name: "8:1, 5 % random loss", f: incast(func(f *fluid) { f.lossy, f.run = 0.05, 60*sec }), p99: 4 * ms},
		{name: "4 senders, 100 Mbit/s, 5 % random loss", f: incast(deep(100*mbit), func(f *fluid) { f.senders, f.lossy = 4, 0.05 }), p99: 10 * ms},
		{name: "8:1, buffer of 50 us: loss before delay", f: incast(func(f *fluid) { f.buffer = 50 * us }), util: 0.9, lossBelow: 0.12, jain: 0.85},
		{name: "8 senders, 10 Mbit/s behind 10 Gbit/s", f: incast(deep(10*mbit), func(f *fluid) {
			f.senders, f.buffer, f.run, f.warm = 8, 100*ms, 60*sec, 20*sec
		}), p99: 30 * ms},
		{name: "8:1, others take half, on and off", f: incast(func(f *fluid) { f.traffic = onOff }), p99: 8 * ms},
		{name: "1:1, others take half, on and off", f: incast(alone(gbit), func(f *fluid) { f.traffic = onOff }), util: 0.93, p99: 8 * ms},
	} {
		if c.util == 0 {
			c.util = 0.95
		}
		if c.lossBelow == 0 {
			c.lossBelow = 0.005
		}
		if c.jain == 0 {
			c.jain = 0.98
		}
		var all []result
		for seed := uint64(1); seed <= 3; seed++ {
			r := c.f.simulate(seed)
			all = append(all, r)
			if r.util < c.util || r.jain < c.jain || r.loss > c.lossBelow || (c.p99 > 0 && r.q99 > c.p99) {
				t.Errorf("%s, seed %d: %v; want util >= %.3f, Jain >= %.2f, loss <= %.3f, p99 <= %v",
					c.name, seed, r, c.util, c.jain, c.lossBelow, c.p99)
			}
		}
		slices.SortFunc(all, func(a, b result) int { return int((a.util - b.util) * 1e6) })
		t.Logf("robust   %-50s %v  (median of 3)", c.name, all[1])
	}
}
