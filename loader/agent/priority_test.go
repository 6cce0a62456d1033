// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/priority"
)

// threeLevels is the node file of these tests.
const threeLevels = `
nodes:
  - {number: 1, addresses: [10.0.0.1], level: 1, min: 10M, max: 60M}
  - {number: 2, addresses: [10.0.0.2, "fd00::2"], level: 2, min: 10M, max: 50M}
  - {number: 3, addresses: [10.0.0.3], level: 3, min: 5M}
`

// prioLab plays destinations to a prioritizer: each evaluation is 10 ms.
type prioLab struct {
	t      *testing.T
	p      *prioritizer
	params fourcase.Params
	now    uint64
	regs   map[string]*fourcase.Regs
	sent   map[string]uint64
	state  priority.State
}

func newPrioLab(t *testing.T, file string) *prioLab {
	t.Helper()
	n, err := readNodes(nodeFile(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return &prioLab{t: t, p: newPrioritizer(n), params: fourcase.DefaultParams(1e9), now: 1e9,
		regs: map[string]*fourcase.Regs{}, sent: map[string]uint64{}}
}

// traffic is what a destination does in a turn.
type traffic struct {
	peer    string
	allowed uint64 // by the four-case policy, bit/s
	uses    uint64 // bit/s that the application has; above the rate, the pacer holds packets
}

// turns runs evaluations and returns the rates in the order of the traffic.
func (l *prioLab) turns(n int, capacity uint64, all ...traffic) []uint64 {
	rates := make([]uint64, len(all))
	for range n {
		l.now += uint64(10 * time.Millisecond)
		for i, x := range all {
			slot := &bpf.ExchangeSlot{Key: keyOf(x.peer)}
			rate := l.regs[x.peer]
			if rate == nil {
				rate = &fourcase.Regs{RateBps: x.allowed}
				l.regs[x.peer] = rate
			}
			before := rate.RateBps
			if x.uses > before {
				slot.Regs.WinPaced = 1
			}
			l.sent[x.peer] += min(x.uses, before) / 8 / 100
			slot.Regs.TxBytes = l.sent[x.peer]
			regs := fourcase.Regs{RateBps: x.allowed}
			rates[i] = l.p.enforce(slot, &regs, &l.params, l.now)
			rate.RateBps = rates[i]
		}
		l.state = l.p.shareOut(capacity, l.now)
	}
	return rates
}

func keyOf(peer string) bpf.DestKey { return bpf.KeyOf(netip.MustParseAddr(peer)) }

func (l *prioLab) want(what string, got []uint64, want ...uint64) {
	l.t.Helper()
	for i := range want {
		if got[i] != want[i] {
			l.t.Errorf("%s: rates %d, want %d", what, got, want)
			return
		}
	}
}

const line = 1_000_000_000

func greedy(peer string) traffic { return traffic{peer, line, 2 * line} }

func TestPriorityByLevel(t *testing.T) {
	l := newPrioLab(t, threeLevels)
	one, two, three := greedy("10.0.0.1"), greedy("10.0.0.2"), greedy("10.0.0.3")

	l.want("more than there is", l.turns(3, 100e6, one, two, three), 60e6, 35e6, 5e6)
	if l.state.Flags != priority.On|priority.Congested || l.state.Level != 2 || l.state.Active != 3 || l.state.Held != 3 {
		t.Errorf("state %+v", l.state)
	}
	l.want("enough, but the maximums hold", l.turns(3, 900e6, one, two, three), 60e6, 50e6, 790e6)
	l.want("a stranger is of the lowest level", l.turns(3, 100e6, one, two, three, greedy("10.0.0.9")), 60e6, 34e6, 5e6, 1e6)

	// The bottleneck of the first is elsewhere: what it may not use is free.
	one.allowed = 20e6
	l.want("congestion of its own", l.turns(30, 100e6, one, two, three), 20e6, 50e6, 25e6)
}

// A destination that asks for little leaves the rest to others, and has its part
// again as soon as it wants more.
func TestPriorityDemand(t *testing.T) {
	l := newPrioLab(t, threeLevels)
	one, two, three := greedy("10.0.0.1"), greedy("10.0.0.2"), greedy("10.0.0.3")
	one.uses = 8e6
	l.want("8 Mbit/s are 10 with the margin", l.turns(30, 100e6, one, two, three)[1:], 50e6, 40e6)
	one.uses = line
	l.want("this turn sees it", l.turns(1, 100e6, one, two, three)[1:], 50e6, 40e6)
	l.want("the next ones know", l.turns(2, 100e6, one, two, three), 60e6, 35e6, 5e6)
	l.want("the others are gone", l.turns(60, 100e6, three), 100e6)
	l.want("and come back", l.turns(3, 100e6, one, two, three), 60e6, 35e6, 5e6)
}

// Its minimum is a node's whatever the four-case policy says.
func TestPriorityMinimum(t *testing.T) {
	l := newPrioLab(t, threeLevels)
	one := greedy("10.0.0.1")
	one.allowed = 2e6
	l.want("cut to 2 Mbit/s", l.turns(3, 100e6, one), 10e6)
	l.want("not even the minimums", l.turns(4, 5e6, greedy("10.0.0.1"), greedy("10.0.0.2"), greedy("10.0.0.3")), 2e6, 2e6, 1e6)
	if l.state.Flags&priority.Scaled == 0 {
		t.Errorf("state %+v", l.state)
	}
}

// Two addresses of a node share what is the node's.
func TestPriorityAddressesOfANode(t *testing.T) {
	l := newPrioLab(t, threeLevels)
	got := l.turns(3, 100e6, greedy("10.0.0.1"), greedy("10.0.0.2"), greedy("fd00::2"), greedy("10.0.0.3"))
	l.want("35 Mbit/s for both", got, 60e6, 17.5e6, 17.5e6, 5e6)
}

// The four-case rate does not run away from the enforced one.
func TestPriorityKeepsTheFourCaseRateNear(t *testing.T) {
	l := newPrioLab(t, threeLevels)
	l.turns(3, 100e6, greedy("10.0.0.1"), greedy("10.0.0.2"), greedy("10.0.0.3"))
	slot := &bpf.ExchangeSlot{Key: keyOf("10.0.0.3")}
	regs := fourcase.Regs{RateBps: line}
	if rate := l.p.enforce(slot, &regs, &l.params, l.now); rate != 5e6 || regs.RateBps != 20e6 {
		t.Errorf("enforced %d, four-case %d", rate, regs.RateBps)
	}
	l.params.Mode = fourcase.ModeFixed
	regs.RateBps = line
	if rate := l.p.enforce(slot, &regs, &l.params, l.now); rate != 5e6 || regs.RateBps != line {
		t.Errorf("mode fixed: enforced %d, four-case %d", rate, regs.RateBps)
	}
}

func TestNoPriorities(t *testing.T) {
	n, err := readNodes(nodeFile(t, "nodes: [{number: 1, addresses: [10.0.0.1]}]"))
	if err != nil {
		t.Fatal(err)
	}
	if newPrioritizer(n) != nil {
		t.Error("a file without priorities makes none")
	}
}

func TestBadPriorities(t *testing.T) {
	for text, want := range map[string]string{
		"level: 9":            "node 1: level 9: levels are 1 (the highest) to 8",
		"min: 20M, max: 10M":  "node 1: min 20Mbit/s is above max 10Mbit/s",
		"min: fast":           `line 1: "fast" is no rate: write bits per second, for example 100M`,
		"max: [1]":            `is no rate`,
		"level: -1":           `"-1" is no whole number from 0 to 255`,
		"minimum: 20M":        `there is no key "minimum": choose number`,
		"level: highest":      `"highest" is no whole number from 0 to 255`,
		"min: 0.1":            `"0.1" is no rate`,
		"level: 1, min: 200T": `"200T" is no rate`,
	} {
		_, err := ReadNodeFile(nodeFile(t, "nodes: [{number: 1, addresses: [10.0.0.1], "+text+"}]"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestCheckMinimums(t *testing.T) {
	n, err := readNodes(nodeFile(t, threeLevels))
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckMinimums(n.list, 0, 25e6); err != nil {
		t.Error(err)
	}
	if err := CheckMinimums(n.list, 0, 24e6); err == nil || !strings.Contains(err.Error(), "25Mbit/s together, and there are 24Mbit/s to share") {
		t.Error(err)
	}
	if err := CheckMinimums(n.list, 3, 20e6); err != nil {
		t.Errorf("this node needs no bandwidth to itself: %v", err)
	}
}
