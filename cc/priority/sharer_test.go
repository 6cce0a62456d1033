// SPDX-License-Identifier: Apache-2.0

package priority

import (
	"net/netip"
	"testing"
	"time"
)

// sharerLab has traffic for a Sharer: each evaluation is 10 ms.
type sharerLab struct {
	t     *testing.T
	s     *Sharer
	now   uint64
	rates map[string]uint64 // rates of the destinations
	sent  map[string]uint64
	state State
}

// newSharerLab defines three nodes with different priorities.
func newSharerLab(t *testing.T) *sharerLab {
	t.Helper()
	l := &sharerLab{t: t, s: NewSharer(), now: 1e9, rates: map[string]uint64{}, sent: map[string]uint64{}}
	l.s.Define(Node{ID: 1, Level: 1, Min: 10e6, Max: 60e6}, keyOf("10.0.0.1"))
	l.s.Define(Node{ID: 2, Level: 2, Min: 10e6, Max: 50e6}, keyOf("10.0.0.2"), keyOf("fd00::2"))
	l.s.Define(Node{ID: 3, Level: 3, Min: 5e6, Max: All}, keyOf("10.0.0.3"))
	return l
}

// traffic is what a destination does in an evaluation.
type traffic struct {
	peer    string
	allowed uint64 // rate that congestion control allows, bit/s
	uses    uint64 // bit/s that the application has; above the rate, packets wait in the pacer
	takes   uint64 // the limit of the destination, 0 = none
}

// minimum is that of every destination.
const minimum = 1e6

// evaluate runs evaluations and returns the rates in the order of the traffic.
func (l *sharerLab) evaluate(n int, capacity uint64, all ...traffic) []uint64 {
	rates := make([]uint64, len(all))
	for range n {
		l.now += uint64(10 * time.Millisecond)
		for i, x := range all {
			before, known := l.rates[x.peer]
			if !known {
				before = x.allowed
			}
			l.sent[x.peer] += min(x.uses, before) / 8 / 100
			o := Observation{Bytes: l.sent[x.peer], Paced: x.uses > before, AllowedBps: x.allowed, LimitBps: x.takes, MinBps: minimum}
			rates[i] = enforce(l.s, x.peer, &o, l.now)
			l.rates[x.peer] = rates[i]
		}
		l.state = l.s.Share(capacity, l.now)
	}
	return rates
}

// enforce gives a destination the rate that its bounds allow, and observes it. As in the policy loop
// (loop.Bounds), the limit of the destination goes below the floor, and the rate of congestion control
// stays within four times the rate.
func enforce(s *Sharer, peer string, o *Observation, now uint64) uint64 {
	d := s.Destination(keyOf(peer), 0)
	most, floor := d.Bounds()
	o.RateBps = max(min(o.AllowedBps, most), floor)
	if o.LimitBps != 0 {
		o.RateBps = min(o.RateBps, o.LimitBps)
	}
	o.AllowedBps = max(min(o.AllowedBps, 4*o.RateBps), floor)
	s.Observe(d, o, now)
	return o.RateBps
}

func keyOf(peer string) Key { return netip.MustParseAddr(peer).As16() }

func (l *sharerLab) want(what string, got []uint64, want ...uint64) {
	l.t.Helper()
	for i := range want {
		if got[i] != want[i] {
			l.t.Errorf("%s: rates %d, want %d", what, got, want)
			return
		}
	}
}

const line = 1_000_000_000

func greedy(peer string) traffic { return traffic{peer: peer, allowed: line, uses: 2 * line} }

func TestSharerByLevel(t *testing.T) {
	l := newSharerLab(t)
	one, two, three := greedy("10.0.0.1"), greedy("10.0.0.2"), greedy("10.0.0.3")

	l.want("more than there is", l.evaluate(3, 100e6, one, two, three), 60e6, 35e6, 5e6)
	if l.state.Flags != On|Congested || l.state.Level != 2 || l.state.Active != 3 || l.state.Held != 3 {
		t.Errorf("state %+v", l.state)
	}
	l.want("enough, but the maximums hold", l.evaluate(3, 900e6, one, two, three), 60e6, 50e6, 790e6)
	l.want("an undefined node has the lowest level", l.evaluate(3, 100e6, one, two, three, greedy("10.0.0.9")), 60e6, 34e6, 5e6, 1e6)

	// The bottleneck of the first is elsewhere: what it may not use is free.
	one.allowed = 20e6
	l.want("congestion of its own", l.evaluate(30, 100e6, one, two, three), 20e6, 50e6, 25e6)
}

// A destination that asks for little leaves the rest to others, and has its part
// again as soon as it wants more.
func TestSharerDemand(t *testing.T) {
	l := newSharerLab(t)
	one, two, three := greedy("10.0.0.1"), greedy("10.0.0.2"), greedy("10.0.0.3")
	one.uses = 8e6
	l.want("8 Mbit/s are 10 with the margin", l.evaluate(30, 100e6, one, two, three)[1:], 50e6, 40e6)
	one.uses = line
	l.want("this evaluation measures it", l.evaluate(1, 100e6, one, two, three)[1:], 50e6, 40e6)
	l.want("the next ones use it", l.evaluate(2, 100e6, one, two, three), 60e6, 35e6, 5e6)
	l.want("the others are gone", l.evaluate(60, 100e6, three), 100e6)
	l.want("and come back", l.evaluate(3, 100e6, one, two, three), 60e6, 35e6, 5e6)
}

// What a destination does not take goes to the others, though it is of the highest level or below its
// minimum, and is its own again at once.
func TestSharerLimitOfTheDestination(t *testing.T) {
	l := newSharerLab(t)
	one, two, three := greedy("10.0.0.1"), greedy("10.0.0.2"), greedy("10.0.0.3")
	one.takes = 20e6
	l.want("level 1 takes 20", l.evaluate(30, 100e6, one, two, three), 20e6, 50e6, 30e6)
	one.takes = 4e6
	l.want("level 1 takes 4", l.evaluate(30, 100e6, one, two, three), 4e6, 50e6, 46e6)
	one.takes = 0
	l.want("level 1 takes all", l.evaluate(3, 100e6, one, two, three), 60e6, 35e6, 5e6)
}

// Destinations that are sent to at the rate that they take use that rate of a shared link.
func TestSharerUsedUpToTheLimit(t *testing.T) {
	var signs CongestionSigns
	d := Destination{node: &node{max: All}}
	NewSharer().Observe(&d, &Observation{Paced: true, RateBps: 20e6, AllowedBps: line, LimitBps: 20e6}, 1e9)
	d.addCongestionSigns(&signs, 0, 1e9)
	if signs.UsedBps != 20e6 {
		t.Errorf("%d bit/s are used, want 20 Mbit/s", signs.UsedBps)
	}
}

// A node has its minimum, whatever congestion control allows.
func TestSharerMinimum(t *testing.T) {
	l := newSharerLab(t)
	one := greedy("10.0.0.1")
	one.allowed = 2e6
	l.want("decreased to 2 Mbit/s", l.evaluate(3, 100e6, one), 10e6)
	l.want("not even the minimums", l.evaluate(4, 5e6, greedy("10.0.0.1"), greedy("10.0.0.2"), greedy("10.0.0.3")), 2e6, 2e6, 1e6)
	if l.state.Flags&Scaled == 0 {
		t.Errorf("state %+v", l.state)
	}
}

// Two addresses of a node share what it gets.
func TestSharerAddressesOfANode(t *testing.T) {
	l := newSharerLab(t)
	got := l.evaluate(3, 100e6, greedy("10.0.0.1"), greedy("10.0.0.2"), greedy("fd00::2"), greedy("10.0.0.3"))
	l.want("35 Mbit/s for both", got, 60e6, 17.5e6, 17.5e6, 5e6)
}

// Reset ends what the policy did, and it starts anew.
func TestSharerReset(t *testing.T) {
	l := newSharerLab(t)
	l.evaluate(3, 100e6, greedy("10.0.0.1"), greedy("10.0.0.3"))
	l.s.Reset()
	if l.want("after Reset", l.evaluate(1, 100e6, greedy("10.0.0.3")), line); l.state.Active != 1 {
		t.Errorf("state %+v", l.state)
	}
}

// Where the minimums do not fit, a node that sends little may still begin to send at the part of
// its minimum that fits. Otherwise its rate would be as small as what it sends, and it could never
// show that it wants more.
func TestSharerScaledIdle(t *testing.T) {
	l := newSharerLab(t)
	const capacity = 12_500_000 // half of the minimums
	rates := l.evaluate(60, capacity,
		traffic{"10.0.0.1", 60e6, 60e6, 0}, traffic{"10.0.0.2", 60e6, 3000, 0}, traffic{"10.0.0.3", 60e6, 60e6, 0})
	if l.state.Flags&Scaled == 0 || rates[1] < 5e6 {
		t.Errorf("a node with a minimum of 10 Mbit/s, of which half fits, has a rate of %d bit/s (flags %#x)", rates[1], l.state.Flags)
	}
}

// What a destination uses is not known in the first evaluations after the policy was turned on. If
// all see congestion at that time, the link is not taken to carry only what the others use.
func TestSharerFirstSigns(t *testing.T) {
	s := NewSharer()
	now := uint64(1e9)
	for i, peer := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
		o := Observation{Bytes: 1e9, Paced: i < 2, Queued: true, AllowedBps: []uint64{9e6, 8e6, 80e6}[i], MinBps: minimum, DecidedNs: now, DecreasedNs: now}
		enforce(s, peer, &o, now)
	}
	if state := s.Share(95e6, now); state.CapacityBps < 90e6 {
		t.Errorf("the link carries 97 Mbit/s, and is taken to carry %.1f", float64(state.CapacityBps)/1e6)
	}
}
