// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/bits"

	"github.com/softroce/softroce-xdp/cc/precredit"
)

// node is a node of the tree, in the order of precredit's: the left child of node i
// is i+1.
type node struct {
	feature, right int
	limit          int16
	small, all     int64
}

func (n *node) class() precredit.Class {
	if 2*n.small >= n.all {
		return precredit.Small
	}
	return precredit.Large
}

// grow is CART (Breiman et al. 1984) with the Gini index, on counts.
func grow(flows []sample, depth, leaf int) []node {
	var t []node
	var add func(flows []sample, depth int)
	add = func(flows []sample, depth int) {
		at := len(t)
		t = append(t, node{small: small(flows), all: int64(len(flows))})
		if depth == 0 {
			return
		}
		feature, limit, ok := split(flows, leaf)
		if !ok {
			return
		}
		var low, high []sample
		for _, s := range flows {
			if s.x[feature] <= limit {
				low = append(low, s)
			} else {
				high = append(high, s)
			}
		}
		add(low, depth-1)
		t[at].feature, t[at].limit, t[at].right = feature, limit, len(t)
		add(high, depth-1)
		// A split whose sides agree is none.
		if l, r := &t[at+1], &t[t[at].right]; l.right == 0 && r.right == 0 && l.class() == r.class() {
			t = t[:at+1]
			t[at].right = 0
		}
	}
	add(flows, depth)
	return t
}

func small(flows []sample) (n int64) {
	for _, s := range flows {
		if s.small {
			n++
		}
	}
	return n
}

const (
	lowest  = precredit.Unknown
	highest = 256
)

// split finds the feature and limit with the least impurity on both sides. The first
// of equals wins. ok is false if none is better than no split.
func split(flows []sample, leaf int) (feature int, limit int16, ok bool) {
	all, smalls := int64(len(flows)), small(flows)
	best := gain(smalls, all, 0, 0) // everything on one side
	for f := range precredit.FeatureNames {
		var hist [highest - lowest + 1][2]int64 // large, small
		for _, s := range flows {
			if s.small {
				hist[s.x[f]-lowest][1]++
			} else {
				hist[s.x[f]-lowest][0]++
			}
		}
		var n, k int64
		for v := range hist {
			k += hist[v][1]
			n += hist[v][0] + hist[v][1]
			if n < int64(leaf) || all-n < int64(leaf) {
				continue
			}
			if g := gain(k, n, smalls-k, all-n); best.less(g) {
				best, feature, limit, ok = g, f, int16(v+lowest), true
			}
		}
	}
	return feature, limit, ok
}

// fraction is a sum of k²/n + (n-k)²/n over both sides, exact: the larger, the purer.
type fraction struct{ num, den int64 }

func gain(k, n, k2, n2 int64) fraction {
	n, n2 = max(n, 1), max(n2, 1)
	return fraction{(k*k+(n-k)*(n-k))*n2 + (k2*k2+(n2-k2)*(n2-k2))*n, n * n2}
}

func (a fraction) less(b fraction) bool {
	ah, al := bits.Mul64(uint64(a.num), uint64(b.den))
	bh, bl := bits.Mul64(uint64(b.num), uint64(a.den))
	return ah < bh || ah == bh && al < bl
}

// predict is the tree's answer.
func predict(t []node, x precredit.Normalized) precredit.Class {
	i := 0
	for t[i].right != 0 {
		if x[t[i].feature] <= t[i].limit {
			i++
		} else {
			i = t[i].right
		}
	}
	return t[i].class()
}
