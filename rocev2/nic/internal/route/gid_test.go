// SPDX-License-Identifier: Apache-2.0

package route

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func addrs(s string) []netip.Addr {
	var out []netip.Addr
	for _, f := range strings.Fields(s) {
		if f == "-" {
			out = append(out, netip.Addr{})
			continue
		}
		out = append(out, netip.MustParseAddr(f))
	}
	return out
}

func TestGIDTable(t *testing.T) {
	var g gidTable
	for _, step := range []struct{ now, want, events string }{
		{"", "-", ""},
		{"10.0.0.1", "- 10.0.0.1", "+1"},
		{"10.0.0.1 fe80::1 fd00::1", "fe80::1 10.0.0.1 fd00::1", "+0 +2"},
		{"fe80::1 fd00::1", "fe80::1 - fd00::1", "-1"},
		{"fe80::1 fe80::2 fd00::1 10.0.0.9", "fe80::1 fe80::2 fd00::1 10.0.0.9", "+1 +3"},
		{"fe80::2 fd00::1", "- fe80::2 fd00::1", "-0 -3"},
		{"fe80::3 fe80::2 fd00::1", "fe80::3 fe80::2 fd00::1", "+0"},
		{"", "-", "-0 -1 -2"},
	} {
		before := slices.Clone(g)
		next, events := g.update(addrs(step.now))
		if !slices.Equal(g, before) {
			t.Fatalf("%q: the old table was written to", step.now)
		}
		g = next
		var got []string
		for _, e := range events {
			sign := "+"
			if e.Kind == GIDRemoved {
				sign = "-"
			}
			got = append(got, sign+string(rune('0'+e.Index)))
		}
		if !slices.Equal(g, gidTable(addrs(step.want))) || strings.Join(got, " ") != step.events {
			t.Errorf("addresses %q: table %v, events %v; want %q, %q", step.now, g, got, step.want, step.events)
		}
	}
}

// TestGIDTableHolds: whatever comes and goes, the table has exactly the addresses that
// exist, none moves, and the events tell the difference.
func TestGIDTableHolds(t *testing.T) {
	all := addrs("fe80::1 fe80::2 fd00::1 fd00::2 10.0.0.1 10.0.0.2 10.0.0.3")
	rapid.Check(t, func(t *rapid.T) {
		var g gidTable
		for _, mask := range rapid.SliceOf(rapid.Uint8Range(0, 1<<7-1)).Draw(t, "steps") {
			var now []netip.Addr
			for i, a := range all {
				if mask>>i&1 == 1 {
					now = append(now, a)
				}
			}
			next, events := g.update(now)
			told := slices.Clone(g)
			for _, e := range events {
				for len(told) <= e.Index {
					told = append(told, netip.Addr{})
				}
				switch {
				case e.Kind == GIDRemoved && told[e.Index] == e.Addr:
					told[e.Index] = netip.Addr{}
				case e.Kind == GIDAdded && !told[e.Index].IsValid():
					told[e.Index] = e.Addr
				default:
					t.Fatalf("event %+v on %v", e, told)
				}
			}
			for i := range max(len(told), len(next)) {
				at := func(g gidTable) (a netip.Addr) {
					if i < len(g) {
						a = g[i]
					}
					return
				}
				if at(told) != at(next) {
					t.Fatalf("the events give %v, the table is %v", told, next)
				}
			}
			valid := 0
			for i, a := range next {
				if !a.IsValid() {
					continue
				}
				valid++
				if !slices.Contains(now, a) || slices.Index(next, a) != i {
					t.Fatalf("%v in %v", a, next)
				}
				if i == 0 && !a.IsLinkLocalUnicast() {
					t.Fatalf("index 0 is %v", a)
				}
			}
			if valid != len(now) {
				t.Fatalf("%d of %d addresses in %v", valid, len(now), next)
			}
			g = next
		}
	})
}
