// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func allocate(pool uint64, claims []Claim) []uint64 {
	grants := make([]uint64, len(claims))
	Allocate(pool, claims, grants)
	return grants
}

func TestAllocateTable(t *testing.T) {
	const all = math.MaxUint64
	for _, c := range []struct {
		name   string
		pool   uint64
		claims []Claim
		want   []uint64
	}{
		{"no nodes", 10, nil, nil},
		{"empty pool", 0, []Claim{{Level: 1, Need: 5, Max: all}}, []uint64{0}},
		{"needs are met, the remainder goes to the highest level", 100,
			[]Claim{{Level: 2, Need: 30, Max: all}, {Level: 1, Need: 20, Max: all}}, []uint64{30, 70}},
		{"the remainder goes on where the highest level is full", 100,
			[]Claim{{Level: 2, Need: 30, Max: all}, {Level: 1, Need: 20, Max: 25}}, []uint64{75, 25}},
		{"the remainder stays where all are full", 100,
			[]Claim{{Level: 2, Need: 30, Max: 40}, {Level: 1, Need: 20, Max: 25}}, []uint64{40, 25}},
		{"needs that do not fit: equal shares, a small need is met", 60,
			[]Claim{{Level: 1, Need: 100, Max: all}, {Level: 2, Need: 100, Max: all}, {Level: 3, Need: 10, Max: all}}, []uint64{25, 25, 10}},
		{"an odd slab goes to the higher level", 5,
			[]Claim{{Level: 2, Need: 9, Max: all}, {Level: 1, Need: 9, Max: all}}, []uint64{2, 3}},
		{"the minimum comes before needs", 50,
			[]Claim{{Level: 1, Need: 100, Max: all}, {Level: 9, Min: 40, Max: all}}, []uint64{10, 40}},
		{"minimums that do not fit", 10,
			[]Claim{{Level: 1, Min: 8, Max: all}, {Level: 2, Min: 8, Max: all}, {Level: 3, Min: 2, Max: all}}, []uint64{4, 4, 2}},
		{"what is used counts as need", 50,
			[]Claim{{Level: 1, Need: 5, Used: 20, Max: 20}, {Level: 1, Need: 40, Max: 40}}, []uint64{20, 30}},
		{"a minimum above the maximum", 50, []Claim{{Level: 1, Min: 40, Max: 5}}, []uint64{5}},
		{"largest numbers", all,
			[]Claim{{Level: 1, Need: all, Min: all, Max: all}, {Level: 2, Need: all, Used: all, Min: all, Max: all}}, []uint64{all/2 + 1, all / 2}},
	} {
		if got := allocate(c.pool, c.claims); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// randomClaims draws claims with small numbers, so that equal ones and zeros are frequent.
func randomClaims(r *rand.Rand) (uint64, []Claim) {
	claims := make([]Claim, 1+r.IntN(7))
	for i := range claims {
		c := &claims[i]
		*c = Claim{Level: 1 + r.IntN(3), Need: r.Uint64N(40), Used: r.Uint64N(40), Max: r.Uint64N(60)}
		if r.IntN(3) == 0 {
			c.Min = r.Uint64N(20)
		}
		if r.IntN(4) == 0 {
			c.Max = math.MaxUint64
		}
	}
	return r.Uint64N(150), claims
}

// The rules of Allocate hold for any claims.
func TestAllocateProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 40_000 {
		pool, claims := randomClaims(r)
		grants := allocate(pool, claims)
		if again := allocate(pool, claims); !slices.Equal(again, grants) {
			t.Fatalf("pool %d, %+v: %v, then %v", pool, claims, grants, again)
		}
		checkSums(t, pool, claims, grants)
		checkFairness(t, pool, claims, grants)
		checkMonotone(t, r, pool, claims, grants)
	}
}

// checkSums compares grants with the pool, the minimums, the needs and the maximums.
func checkSums(t *testing.T, pool uint64, claims []Claim, grants []uint64) {
	t.Helper()
	var sum, minimums, targets uint64
	full := true
	for i, c := range claims {
		if grants[i] > c.Max {
			t.Fatalf("pool %d, %+v: %v: node %d has more than its maximum", pool, claims, grants, i)
		}
		sum += grants[i]
		minimums += min(c.Min, c.Max)
		targets += c.target()
		full = full && grants[i] == c.Max
	}
	if sum > pool || sum < pool && !full {
		t.Fatalf("pool %d, %+v: %v: the sum is %d", pool, claims, grants, sum)
	}
	for i, c := range claims {
		if minimums <= pool && grants[i] < min(c.Min, c.Max) {
			t.Fatalf("pool %d, %+v: %v: node %d has less than its minimum", pool, claims, grants, i)
		}
		if targets <= pool && grants[i] < c.target() {
			t.Fatalf("pool %d, %+v: %v: the need of node %d is not met, though all needs fit", pool, claims, grants, i)
		}
		if targets > pool && grants[i] > c.target() {
			t.Fatalf("pool %d, %+v: %v: node %d has more than its need, though not all needs fit", pool, claims, grants, i)
		}
	}
}

// checkFairness compares two nodes: of the remainder a lower level gets nothing while a higher one has
// room; a node with less need than another of its level, and no other difference, has no more, but for
// one slab that does not divide.
func checkFairness(t *testing.T, pool uint64, claims []Claim, grants []uint64) {
	t.Helper()
	for i, a := range claims {
		for j, b := range claims {
			if a.Level < b.Level && grants[i] < a.Max && grants[j] > b.target() {
				t.Fatalf("pool %d, %+v: %v: node %d has part of the remainder before node %d of a higher level is full", pool, claims, grants, j, i)
			}
			if a.Level == b.Level && a.Min == b.Min && a.Max == b.Max && a.target() < b.target() && grants[i] > grants[j]+1 {
				t.Fatalf("pool %d, %+v: %v: node %d asks less than node %d and has more", pool, claims, grants, i, j)
			}
		}
	}
}

// checkMonotone: more need, more use or a larger pool never gives a node less.
func checkMonotone(t *testing.T, r *rand.Rand, pool uint64, claims []Claim, grants []uint64) {
	t.Helper()
	i := r.IntN(len(claims))
	more := slices.Clone(claims)
	if r.IntN(2) == 0 {
		more[i].Need += r.Uint64N(30)
	} else {
		more[i].Used += r.Uint64N(30)
	}
	if got := allocate(pool, more); got[i] < grants[i] {
		t.Fatalf("pool %d: node %d had %d of %+v, and has %d of %+v", pool, i, grants[i], claims, got[i], more)
	}
	larger := pool + r.Uint64N(50)
	for k, g := range allocate(larger, claims) {
		if g < grants[k] {
			t.Fatalf("%+v: node %d has %d of a pool of %d, and %d of one of %d", claims, k, grants[k], pool, g, larger)
		}
	}
}
