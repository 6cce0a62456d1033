// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/priority"
)

// The data plane's header has the numbers and names of the bounds.
func TestBoundsOfTheHeader(t *testing.T) {
	header, err := os.ReadFile("../../bpf/lib/abi.h")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for bound := BoundPolicy; bound <= BoundReceiver; bound++ {
		names = append(names, fmt.Sprintf("%d %v", uint8(bound), bound))
	}
	if list := strings.Join(names, ", "); !strings.Contains(string(header), "which bound sets rate_bps: "+list+" (") {
		t.Errorf("bpf/lib/abi.h does not have the list %q", list)
	}
}

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		name   string
		bounds Bounds
		rate   uint64
		by     Bound
	}{
		{"none", Bounds{}, 0, BoundUnknown},
		{"the policy alone", Bounds{BoundPolicy: 50}, 50, BoundPolicy},
		{"the policy is the least", Bounds{BoundPolicy: 50, BoundPriority: 60, BoundShare: 70, BoundReceiver: 80}, 50, BoundPolicy},
		{"the priority is the least", Bounds{BoundPolicy: 50, BoundPriority: 40, BoundFloor: 30}, 40, BoundPriority},
		{"the floor raises the policy", Bounds{BoundPolicy: 50, BoundPriority: 90, BoundFloor: 60}, 60, BoundFloor},
		{"the floor raises the priority", Bounds{BoundPolicy: 50, BoundPriority: 40, BoundFloor: 45}, 45, BoundFloor},
		{"the share is the least", Bounds{BoundPolicy: 50, BoundShare: 40, BoundReceiver: 45}, 40, BoundShare},
		{"the share is below the floor", Bounds{BoundPolicy: 50, BoundPriority: 90, BoundFloor: 60, BoundShare: 55}, 55, BoundShare},
		{"the receiver is the least", Bounds{BoundPolicy: 50, BoundShare: 40, BoundReceiver: 30}, 30, BoundReceiver},
		{"the receiver is below the floor", Bounds{BoundPolicy: 50, BoundPriority: 40, BoundFloor: 45, BoundReceiver: 20}, 20, BoundReceiver},
		{"the receiver alone", Bounds{BoundReceiver: 30}, 30, BoundReceiver},
		{"the policy is at its share", Bounds{BoundPolicy: 40, BoundShare: 40}, 40, BoundShare},
		{"the policy is at the floor", Bounds{BoundPolicy: 40, BoundPriority: 90, BoundFloor: 40}, 40, BoundFloor},
		{"all are equal", Bounds{BoundPolicy: 40, BoundPriority: 40, BoundFloor: 40, BoundShare: 40, BoundReceiver: 40}, 40, BoundReceiver},
	} {
		if rate, by := c.bounds.Rate(); rate != c.rate || by != c.by {
			t.Errorf("%s: %d by %q, want %d by %q", c.name, rate, by, c.rate, c.by)
		}
	}
}

// The rate of any bounds is min(max(min(policy, priority), floor), share, receiver), and it is that of the bound named.
func TestBoundsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bps := rapid.Uint64Range(0, 8)
		b := Bounds{BoundPolicy: bps.Draw(t, "policy") + 1}
		want := b[BoundPolicy]
		for bound := BoundPriority; bound <= BoundReceiver; bound++ {
			limit := bps.Draw(t, bound.String())
			switch b[bound] = limit; {
			case limit == 0:
			case bound == BoundFloor:
				want = max(want, limit)
			default:
				want = min(want, limit)
			}
		}
		if rate, by := b.Rate(); rate != want || b[by] != want {
			t.Fatalf("%d: %d by %q, want %d", b, rate, by, want)
		}
	})
}

// The policy's own rate stays within four times the rate, and is at least the floor.
func TestPolicyRate(t *testing.T) {
	const most = priority.All
	for _, c := range []struct {
		name              string
		policy, floor     uint64
		rate, least, want uint64
	}{
		{"no other bound", 100, 0, 100, 7, 100},
		{"a bound near it", 100, 0, 30, 7, 100},
		{"a bound far below", 100, 0, 20, 7, 80},
		{"a bound of nothing", 100, 0, 1, 7, 7},
		{"below the least already", 5, 0, 1, 7, 5},
		{"the floor raises it", 5, 10, 10, 10, 10},
		{"a bound below the floor", 100, 50, 2, 50, 50},
		{"no overflow", most, 0, most - 1, 7, most - most%maxAhead},
	} {
		b := Bounds{BoundPolicy: c.policy, BoundFloor: c.floor}
		if got := b.policyRate(c.rate, c.least); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// Each bound is named in the register of a destination that it binds, and no longer than it does.
func TestBoundIsNamed(t *testing.T) {
	nodes := func(n priority.Node) *priority.Sharer {
		s := priority.NewSharer()
		s.Define(n, keyN(1).Addr)
		return s
	}
	for _, c := range []struct {
		name   string
		dests  int
		queue  int64
		limit  uint64
		sharer *priority.Sharer
		want   Bound
	}{
		{"nothing else binds", 1, 0, 0, nil, BoundPolicy},
		{"congestion below the share", 2, 40e6, 0, nil, BoundPolicy},
		{"two have data", 2, 0, 0, nil, BoundShare},
		{"the receiver has named a limit", 2, 0, 8e6, nil, BoundReceiver},
		{"a limit above the share", 2, 0, playLink * 3 / 4, nil, BoundShare},
		{"a maximum", 1, 0, 0, nodes(priority.Node{ID: 1, Level: 1, Max: playLink / 2}), BoundPriority},
		{"a higher level has the link", 2, 0, 0, nodes(priority.Node{ID: 1, Level: priority.Levels, Max: playLink / 3}), BoundPriority},
		{"congestion at the minimum", 1, 40e6, 0, nodes(priority.Node{ID: 1, Level: 1, Min: playLink / 2, Max: priority.All}), BoundFloor},
		{"a limit below the minimum", 1, 0, 8e6, nodes(priority.Node{ID: 1, Level: 1, Min: playLink / 2, Max: priority.All}), BoundReceiver},
		{"congestion below the maximum", 1, 40e6, 0, nodes(priority.Node{ID: 1, Level: 1, Max: priority.All}), BoundPolicy},
	} {
		p := play(playLink, playLink, fourcase.ModeRobust, c.dests)
		p.l.sharer, p.l.limit = c.sharer, func(key bpf.DestKey, _ uint64) uint64 {
			if key == p.dests[0].key {
				return c.limit
			}
			return 0
		}
		for _, d := range p.dests {
			d.stack = 2 * playLink
		}
		first := p.dests[0]
		p.ticks(10)
		first.queue = c.queue
		p.ticks(8)
		if got := Bound(first.regs.Bound); got != c.want {
			t.Errorf("%s: %q sets the rate of %d, want %q", c.name, got, first.regs.RateBps, c.want)
		}
		first.queue, c.limit, p.l.sharer = 0, 0, nil
		p.l.cfg.Policy.Mode = uint32(fourcase.ModeFixed)
		p.l.cfg.Policy.MaxRateBps, first.regs.Policy.RateBps = playLink, 1e6
		p.ticks(staleTicks + 2)
		if got := Bound(first.regs.Bound); got != BoundPolicy || first.regs.RateBps != 1e6 {
			t.Errorf("%s, and then a configured rate: %q sets the rate of %d", c.name, got, first.regs.RateBps)
		}
	}
}

// A limit of the receiver far below the minimum of the node does not take the policy's own rate below the minimum.
func TestPolicyRateOfAMinimum(t *testing.T) {
	const least, limit = playLink / 2, playLink / 10
	p := play(playLink, playLink, fourcase.ModeRobust, 1)
	d := p.dests[0]
	p.l.sharer, p.l.limit = priority.NewSharer(), func(bpf.DestKey, uint64) uint64 { return limit }
	p.l.sharer.Define(priority.Node{ID: 1, Level: 1, Min: least, Max: priority.All}, d.key.Addr)
	d.stack = 2 * playLink
	p.ticks(20)
	if rate, own := d.regs.RateBps, d.regs.Policy.RateBps; rate != limit || own != least {
		t.Errorf("rate %d and the policy's %d, want %d and %d", rate, own, limit, least)
	}
}

// A bound that changes is written even where nothing else does.
func TestBoundAloneIsStored(t *testing.T) {
	l := New(Options{Config: &bpf.Config{}, Limit: func(bpf.DestKey, uint64) uint64 { return 50 }})
	params := fourcase.Params{Mode: fourcase.ModeFixed, MaxRateBps: 100}
	slot := &bpf.AgentSlot{Regs: bpf.DestRegs{RateBps: 50, Bound: uint8(BoundPolicy)}}
	for _, c := range []struct {
		limit uint64
		want  bool
	}{{50, true}, {50, false}, {60, true}} {
		st := stepOf(slot)
		st.policy.RateBps, st.limit = 50, c.limit
		if rate := l.bounded(&st, &params, params.MaxRateBps, second); rate != 50 {
			t.Fatalf("rate %d", rate)
		}
		if got := st.store(slot); got != c.want {
			t.Errorf("limit %d: stored %t, want %t", c.limit, got, c.want)
		}
	}
}

// A rate that was configured is not changed by a bound: it stays in the policy's registers.
func TestBoundsLeaveAConfiguredRate(t *testing.T) {
	for mode, want := range map[fourcase.Mode]uint64{fourcase.ModeRobust: 40, fourcase.ModeLiteral: 40, fourcase.ModeFixed: 100} {
		l := New(Options{Config: &bpf.Config{}})
		params := fourcase.Params{Mode: mode, MinRateBps: 1, MaxRateBps: 100}
		st := step{regs: &bpf.DestRegs{}, policy: fourcase.Regs{RateBps: 100}, limit: 10}
		if rate := l.bounded(&st, &params, params.MaxRateBps, second); rate != 10 || st.policy.RateBps != want {
			t.Errorf("%v: rate %d and the policy's %d, want 10 and %d", mode, rate, st.policy.RateBps, want)
		}
	}
}
