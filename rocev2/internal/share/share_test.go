// SPDX-License-Identifier: Apache-2.0

package share

import (
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// host is address n of network net.
func host(net, n int) netip.Addr { return addr(fmt.Sprintf("10.0.%d.%d", net, n)) }

func TestPrefix(t *testing.T) {
	for in, want := range map[string]string{
		"10.1.2.3": "10.1.2.0/24", "::ffff:10.1.2.3": "10.1.2.0/24", "fd00:1:2:3:4::5": "fd00:1:2:3::/64", "fe80::1%eth0": "fe80::/64",
	} {
		if got := Prefix(addr(in)).String(); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	if p := Prefix(netip.Addr{}); p.IsValid() {
		t.Errorf("no address: %s", p)
	}
}

// A single network gets all places and keeps them: beyond them it is refused.
func TestOneNetwork(t *testing.T) {
	x := Table[int]{Max: 10}
	for i := range 20 {
		p, lost := x.Take(host(1, i), 2, i)
		if (p != nil) != (i < 10) || lost != nil {
			t.Errorf("%d: %v, %v", i, p, lost)
		}
	}
}

// Another network takes places of the one that has the most, the oldest first, until both have the same.
func TestFairDisplacement(t *testing.T) {
	x := Table[int]{Max: 10}
	for i := range 10 {
		x.Take(host(1, i), 2, i)
	}
	for i := range 10 {
		p, lost := x.Take(host(2, i), 2, 100+i)
		if i < 5 && (p == nil || lost == nil || lost.Value != i) || i >= 5 && p != nil {
			t.Errorf("%d: %v, %v", i, p, lost)
		}
	}
	if x.Len() != 10 {
		t.Errorf("%d places", x.Len())
	}
}

// With Refresh, a newcomer always gets in: by the oldest place of its own network, or by the oldest of all.
func TestRefresh(t *testing.T) {
	x := Table[int]{Max: 4, Refresh: true}
	for i := range 4 {
		x.Take(host(1, i), 2, i)
	}
	if p, lost := x.Take(host(1, 9), 2, 9); p == nil || lost.Value != 0 {
		t.Errorf("own network: %v, %v", p, lost)
	}
	y := Table[int]{Max: 4, Refresh: true}
	for i := range 4 {
		y.Take(host(i, 1), 2, i)
	}
	if p, lost := y.Take(host(9, 1), 2, 9); p == nil || lost.Value != 0 {
		t.Errorf("a fifth network: %v, %v", p, lost)
	}
}

// A higher rank displaces a lower one, whatever the networks have, and never the other way round.
func TestRanks(t *testing.T) {
	x := Table[int]{Max: 3, Refresh: true}
	for i := range 3 {
		x.Take(host(1, i), 2, i)
	}
	for i := range 3 {
		if p, lost := x.Take(host(1, 10+i), 3, 10+i); p == nil || lost.Value != i {
			t.Errorf("rank 3: %v, %v", p, lost)
		}
	}
	for r := range 3 {
		if p, _ := x.Take(host(7, 1), r, 0); p != nil {
			t.Errorf("rank %d displaces rank 3", r)
		}
	}
}

// Rank 0 has few places of its own, also where others are free.
func TestMaxLowest(t *testing.T) {
	x := Table[int]{Max: 100, MaxLowest: 2}
	for i := range 4 {
		if p, _ := x.Take(host(1, i), 0, i); (p != nil) != (i < 2) {
			t.Errorf("%d: %v", i, p)
		}
	}
	if p, lost := x.Take(host(1, 9), 1, 9); p == nil || lost != nil {
		t.Errorf("rank 1 next to them: %v, %v", p, lost)
	}
}

// Whatever is taken and freed: the counts are right, and nobody is displaced by a lower rank or while there is room.
func TestPropertyTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := Table[int]{
			Max: rapid.IntRange(1, 8).Draw(t, "max"), MaxLowest: rapid.IntRange(0, 3).Draw(t, "lowest"), Refresh: rapid.Bool().Draw(t, "refresh"),
		}
		taken := map[*Place[int]]int{}
		for i := range rapid.IntRange(1, 100).Draw(t, "steps") {
			if len(taken) > 0 && rapid.IntRange(0, 3).Draw(t, "free") == 0 {
				for p := range taken {
					delete(taken, p)
					x.Free(p)
					x.Free(p) // no effect
					break
				}
				continue
			}
			r := rapid.IntRange(0, Ranks-1).Draw(t, "rank")
			room := len(taken) < x.Max
			p, lost := x.Take(host(rapid.IntRange(1, 4).Draw(t, "network"), i), r, i)
			if lost != nil {
				if taken[lost] > r || room && r > 0 {
					t.Fatalf("rank %d displaces rank %d, room: %v", r, taken[lost], room)
				}
				delete(taken, lost)
			}
			if p == nil && room && r > 0 {
				t.Fatal("refused while there is room")
			}
			if p != nil {
				taken[p] = r
			}
			if x.Len() != len(taken) || x.Len() > x.Max {
				t.Fatalf("%d places, %d known, %d at most", x.Len(), len(taken), x.Max)
			}
		}
		for p := range taken {
			x.Free(p)
		}
		for r := range x.ranks {
			if y := &x.ranks[r]; y.count != 0 || len(y.groups) != 0 || len(y.heap) != 0 {
				t.Fatalf("rank %d: %d, %d, %d left", r, y.count, len(y.groups), len(y.heap))
			}
		}
	})
}
