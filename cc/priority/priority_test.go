// SPDX-License-Identifier: Apache-2.0

package priority

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const max63 = 1 << 63

func TestAllocate(t *testing.T) {
	for _, c := range []struct {
		name     string
		capacity uint64
		nodes    []Node
		want     []uint64
		outcome  Outcome
	}{
		{"nobody", 10, nil, []uint64{}, Outcome{}},
		{"enough for all", 100, []Node{{1, 1, 10, 40, All}, {2, 2, 10, 30, All}}, []uint64{40, 30}, Outcome{Granted: 70}},
		{"exactly enough", 70, []Node{{1, 1, 10, 40, All}, {2, 2, 10, 30, All}}, []uint64{40, 30}, Outcome{Granted: 70}},
		{"minimums first, then from L1 down", 100,
			[]Node{{1, 3, 10, 80, All}, {2, 1, 5, 60, All}, {3, 2, 5, 80, All}},
			[]uint64{10, 60, 30}, Outcome{Granted: 100, Congested: true, Level: 2}},
		{"the highest level alone takes the rest", 100,
			[]Node{{1, 1, 0, All, All}, {2, 2, 7, All, All}, {3, 3, 3, All, All}},
			[]uint64{90, 7, 3}, Outcome{Granted: 100, Congested: true, Level: 1}},
		{"exactly the minimums", 10,
			[]Node{{1, 1, 4, 9, All}, {2, 2, 6, 9, All}}, []uint64{4, 6}, Outcome{Granted: 10, Congested: true, Level: 1}},
		{"ties in proportion to what each still wants", 40,
			[]Node{{1, 2, 0, 30, All}, {2, 2, 0, 10, All}, {3, 1, 0, 20, All}},
			[]uint64{15, 5, 20}, Outcome{Granted: 40, Congested: true, Level: 2}},
		{"its minimum does not lower a node's part", 30,
			// Wants left are 10 and 10 of the 20 that are left.
			[]Node{{1, 1, 10, 30, All}, {2, 1, 0, 20, All}}, []uint64{20, 10}, Outcome{Granted: 30, Congested: true, Level: 1}},
		{"odd units to the largest rests", 10,
			// 10/7 of 3, 3 and 1: 4.28, 4.28, 1.43.
			[]Node{{1, 1, 0, 30, All}, {2, 1, 0, 30, All}, {3, 1, 0, 10, All}}, []uint64{4, 4, 2}, Outcome{Granted: 10, Congested: true, Level: 1}},
		{"among equals to the least number", 11,
			[]Node{{9, 1, 0, 30, All}, {2, 1, 0, 30, All}, {5, 1, 0, 30, All}}, []uint64{3, 4, 4}, Outcome{Granted: 11, Congested: true, Level: 1}},
		{"who asks for less frees the rest", 100,
			[]Node{{1, 1, 50, 90, 20}, {2, 2, 10, 60, All}, {3, 3, 10, 60, All}},
			[]uint64{20, 60, 20}, Outcome{Granted: 100, Congested: true, Level: 3}},
		{"who asks for nothing gets nothing", 100, []Node{{1, 1, 50, 90, 0}, {2, 2, 10, 60, All}}, []uint64{0, 60}, Outcome{Granted: 60}},
		{"minimums exceed the capacity", 30,
			[]Node{{1, 3, 40, 80, All}, {2, 1, 20, 60, All}}, []uint64{20, 10}, Outcome{Granted: 30, Congested: true, Scaled: true}},
		{"nothing to share", 0, []Node{{1, 1, 1, 1, All}, {2, 1, 0, 1, All}}, []uint64{0, 0}, Outcome{Congested: true, Scaled: true}},
		{"level 0 and unknown levels are the lowest", 10,
			[]Node{{1, 0, 0, 10, All}, {2, 200, 0, 10, All}, {3, Levels, 0, 10, All}, {4, Levels - 1, 0, 1, All}},
			[]uint64{3, 3, 3, 1}, Outcome{Granted: 10, Congested: true, Level: Levels}},
		{"a maximum below the minimum counts", 100, []Node{{1, 1, 50, 20, All}, {2, 2, 0, 90, All}}, []uint64{20, 80}, Outcome{Granted: 100, Congested: true, Level: 2}},
		{"as much as 64 bits hold", All,
			[]Node{{1, 1, max63, All, All}, {2, 1, max63 - 1, All, All}}, []uint64{max63, max63 - 1}, Outcome{Granted: All, Congested: true, Level: 1}},
		{"and minimums beyond that", All, []Node{{1, 1, All, All, All}, {2, 2, All, All, All}, {3, 3, All, All, All}},
			[]uint64{All / 3, All / 3, All / 3}, Outcome{Granted: All, Congested: true, Scaled: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var a Allocator
			got := make([]uint64, len(c.nodes))
			outcome := a.Allocate(c.capacity, c.nodes, got)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("grants (-want +got):\n%s", diff)
			}
			if outcome != c.outcome {
				t.Errorf("outcome %+v, want %+v", outcome, c.outcome)
			}
		})
	}
}

func TestAllocatesNothingAgain(t *testing.T) {
	var a Allocator
	nodes := many(100)
	grants := make([]uint64, len(nodes))
	a.Allocate(1e9, nodes, grants)
	if n := testing.AllocsPerRun(10, func() { a.Allocate(1e9, nodes, grants) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// many nodes on all levels, of which none gets all it wants in the end.
func many(n int) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node{ID: uint32(i + 1), Level: uint8(1 + i%Levels), Min: 1000 + uint64(i)%7, Max: 1_000_000 + uint64(i*i)%99_991, Demand: All}
	}
	return nodes
}

func BenchmarkAllocate(b *testing.B) {
	for _, c := range []struct {
		name string
		n    int
	}{{"3 nodes", 3}, {"1000 nodes", 1000}, {"60000 nodes", 60_000}} {
		for _, oneLevel := range []bool{false, true} {
			name, nodes := c.name, many(c.n)
			if oneLevel {
				name += " of one level"
				for i := range nodes {
					nodes[i].Level = 1
				}
			}
			b.Run(name, func(b *testing.B) {
				var a Allocator
				grants := make([]uint64, len(nodes))
				b.ReportAllocs()
				for b.Loop() {
					a.Allocate(uint64(c.n)*400_000, nodes, grants)
				}
			})
		}
	}
}
