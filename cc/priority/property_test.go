// SPDX-License-Identifier: Apache-2.0

package priority

import (
	"maps"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// rates of all sizes, small ones often: those make ties and odd units.
func rates() *rapid.Generator[uint64] {
	return rapid.OneOf(rapid.Uint64Max(20), rapid.Uint64Max(1e11), rapid.Uint64Max(1<<63), rapid.Just(uint64(All)))
}

func someNodes(t *rapid.T) []Node {
	n := rapid.IntRange(1, 12).Draw(t, "n")
	ids := rapid.Permutation(slices.Collect(maps.Keys(numbers(n)))).Draw(t, "ids")
	nodes := make([]Node, n)
	for i := range nodes {
		lo, hi := rates().Draw(t, "min"), rates().Draw(t, "max")
		nodes[i] = Node{
			ID: ids[i], Level: uint8(rapid.IntRange(1, 4).Draw(t, "level")), Min: min(lo, hi), Max: max(lo, hi),
			Demand: rapid.OneOf(rapid.Just(uint64(All)), rates()).Draw(t, "demand"),
		}
	}
	return nodes
}

func numbers(n int) map[uint32]bool {
	m := map[uint32]bool{}
	for i := range n {
		m[uint32(i+1)] = true
	}
	return m
}

func allocate(capacity uint64, nodes []Node) ([]uint64, Outcome) {
	var a Allocator
	grants := make([]uint64, len(nodes))
	return grants, a.Allocate(capacity, nodes, grants)
}

func sum(list []uint64) *big.Int {
	s := new(big.Int)
	for _, x := range list {
		s.Add(s, new(big.Int).SetUint64(x))
	}
	return s
}

func bigMin(capacity uint64, x *big.Int) *big.Int {
	c := new(big.Int).SetUint64(capacity)
	if x.Cmp(c) < 0 {
		return x
	}
	return c
}

func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity, nodes := rates().Draw(t, "capacity"), someNodes(t)
		grants, outcome := allocate(capacity, nodes)
		var wants []uint64
		for i := range nodes {
			wants = append(wants, nodes[i].want())
		}
		total := sum(wants)
		if got, want := sum(grants), bigMin(capacity, total); got.Cmp(want) != 0 || new(big.Int).SetUint64(outcome.Granted).Cmp(got) != 0 {
			t.Fatalf("granted %v (says %d), want %v", got, outcome.Granted, want)
		}
		if outcome.Congested != (total.Cmp(new(big.Int).SetUint64(capacity)) > 0) {
			t.Fatalf("Congested %t: %v wanted of %d", outcome.Congested, total, capacity)
		}
	})
}

// S4.5, said without the algorithm: the minimum of every node, nobody above its
// maximum or its demand, and nobody beyond its minimum while a higher level goes short.
func TestOrderOfService(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity, nodes := rates().Draw(t, "capacity"), someNodes(t)
		grants, outcome := allocate(capacity, nodes)
		var leasts []uint64
		for _, n := range nodes {
			leasts = append(leasts, min(n.Min, n.want()))
		}
		feasible := sum(leasts).Cmp(new(big.Int).SetUint64(capacity)) <= 0
		if outcome.Scaled == feasible {
			t.Fatalf("Scaled %t with minimums of %v and %d to share", outcome.Scaled, sum(leasts), capacity)
		}
		for i, n := range nodes {
			if grants[i] > n.want() {
				t.Fatalf("node %d got %d and wants %d", n.ID, grants[i], n.want())
			}
			if !feasible && grants[i] > leasts[i] {
				t.Fatalf("node %d got %d, more than its minimum of %d, while minimums do not fit", n.ID, grants[i], leasts[i])
			}
			if feasible && grants[i] < leasts[i] {
				t.Fatalf("node %d got %d, below its minimum of %d", n.ID, grants[i], leasts[i])
			}
			for j, higher := range nodes {
				if feasible && higher.Level < n.Level && grants[j] < higher.want() && grants[i] > leasts[i] {
					t.Fatalf("node %d (L%d) goes short while node %d (L%d) has more than its minimum", higher.ID, higher.Level, n.ID, n.Level)
				}
			}
		}
	})
}

// Within a level, everybody's share is the exact proportion, rounded up or down.
func TestProportion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity, nodes := rates().Draw(t, "capacity"), someNodes(t)
		grants, outcome := allocate(capacity, nodes)
		if !outcome.Congested {
			return
		}
		var claims, got []uint64
		for i, n := range nodes {
			least := min(n.Min, n.want())
			switch {
			case outcome.Scaled:
				claims, got = append(claims, least), append(got, grants[i])
			case n.Level == outcome.Level:
				claims, got = append(claims, n.want()-least), append(got, grants[i]-least)
			}
		}
		total, shared := sum(claims), sum(got)
		for i := range claims {
			exact := new(big.Int).Mul(shared, new(big.Int).SetUint64(claims[i]))
			floor, rest := new(big.Int).QuoRem(exact, total, new(big.Int))
			off := new(big.Int).Sub(new(big.Int).SetUint64(got[i]), floor)
			if off.Sign() < 0 || off.Cmp(big.NewInt(1)) > 0 || off.Sign() > 0 && rest.Sign() == 0 {
				t.Fatalf("claim %d of %v gets %d of %v; exactly it were %v + %v/%v", claims[i], total, got[i], shared, floor, rest, total)
			}
		}
	})
}

func TestOrderOfNodesDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity, nodes := rates().Draw(t, "capacity"), someNodes(t)
		grants, outcome := allocate(capacity, nodes)
		of := map[uint32]uint64{}
		for i, n := range nodes {
			of[n.ID] = grants[i]
		}
		shuffled := rapid.Permutation(nodes).Draw(t, "shuffled")
		again, outcome2 := allocate(capacity, shuffled)
		if outcome != outcome2 {
			t.Fatalf("%+v, then %+v", outcome, outcome2)
		}
		for i, n := range shuffled {
			if again[i] != of[n.ID] {
				t.Fatalf("node %d gets %d or %d", n.ID, of[n.ID], again[i])
			}
		}
	})
}

// A node that is given a higher level never loses by it.
func TestHigherLevelNeverLoses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity, nodes := rates().Draw(t, "capacity"), someNodes(t)
		before, _ := allocate(capacity, nodes)
		i := rapid.IntRange(0, len(nodes)-1).Draw(t, "promoted")
		nodes[i].Level = uint8(rapid.IntRange(1, int(nodes[i].Level)).Draw(t, "to"))
		after, _ := allocate(capacity, nodes)
		if after[i] < before[i] {
			t.Fatalf("node %d had %d, promoted to L%d it has %d", nodes[i].ID, before[i], nodes[i].Level, after[i])
		}
	})
}

// More capacity takes nothing from anybody but the unit that rounding may move.
func TestMoreCapacityHurtsNobody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity, nodes := rates().Draw(t, "capacity"), someNodes(t)
		before, _ := allocate(capacity, nodes)
		after, _ := allocate(max(capacity, rates().Draw(t, "more")), nodes)
		for i := range nodes {
			if after[i]+1 < before[i] && after[i] != All {
				t.Fatalf("node %d had %d and has %d", nodes[i].ID, before[i], after[i])
			}
		}
	})
}
