// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"strings"
	"testing"
)

func TestRange(t *testing.T) {
	for _, c := range []struct {
		r      Range
		v      float64
		ratio  float64
		factor float64
		ok     bool
		text   string
	}{
		{at(4), 4, 1, 1, true, "4"},
		{at(4), 6, 1.5, 1.5, true, "4"},
		{at(4), 2, .5, 1.5, false, "4"},
		{Range{10.8, 11.8}, 11, 1, 1, true, "10.8-11.8"},
		{Range{10.8, 11.8}, 5.4, .5, 1.9, false, "10.8-11.8"},
		{Range{0, 30}, 0, 1, 1, true, "0-30"},
		{Range{0, 30}, 60, 2, 1.5, false, "0-30"},
		{Range{}, 5, 0, 100, false, "-"},
	} {
		if got := c.r.ratio(c.v); got != c.ratio {
			t.Errorf("%v of %g: ratio %g, want %g", c.r, c.v, got, c.ratio)
		}
		if got := c.r.within(c.v, c.factor); got != c.ok {
			t.Errorf("%g within %g of %v: %v", c.v, c.factor, c.r, got)
		}
		if got := c.r.String(); got != c.text {
			t.Errorf("prints %s, want %s", got, c.text)
		}
	}
}

func TestOrdered(t *testing.T) {
	paper := []Range{at(1), at(2), at(2.1), at(5)}
	for _, c := range []struct {
		ours []float64
		bad  int
	}{
		{[]float64{10, 20, 21, 50}, 0},
		{[]float64{10, 21, 20, 50}, 0}, // the paper's are too near to be an order
		{[]float64{10, 9.9, 21, 50}, 0},
		{[]float64{10, 9, 21, 50}, 1},
		{[]float64{60, 20, 21, 50}, 3},
	} {
		if bad := ordered(paper, c.ours, .1, .02); len(bad) != c.bad {
			t.Errorf("%v: out of order %v, want %d pairs", c.ours, bad, c.bad)
		}
	}
}

func TestTable(t *testing.T) {
	rows := []Row{{ID: "V1", What: "slowdown", Scheme: "hpcc", Paper: at(1.9), Ours: 3.8, Note: "why"}}
	for _, write := range []func() string{
		func() string { var b bytes.Buffer; Table(&b, rows); return b.String() },
		func() string { var b bytes.Buffer; Markdown(&b, rows); return b.String() },
	} {
		got := write()
		for _, want := range []string{"V1", "hpcc", "1.9", "3.8", "2.00", "DEPARTS", "why"} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
	}
}

func TestPercentileOfTheRightFlows(t *testing.T) {
	var all []sample
	for i := range 100 {
		all = append(all, sample{1000, .5, float64(i + 1)}, sample{5000, .5, 1e6}, sample{1000, .9, 1e6})
	}
	p := published{min: 500, max: 2000, percentile: .95, until: .6}
	if v, n := p.of(all); v != 96 || n != 100 {
		t.Errorf("p95 %g of %d flows, want 96 of 100", v, n)
	}
	p.min, p.max = 6000, 7000
	if v, n := p.of(all); v == v || n != 0 {
		t.Errorf("%g of %d flows, want no number of none", v, n)
	}
}
