// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"

	"github.com/softroce/softroce-xdp/cc/sim/experiment"
)

// Claim is something that completion times should show, and where they do.
type Claim struct {
	Text        string
	Held, Cases int
	Lost        []string // the cases in which they do not
}

// rule compares our scheme with others in the buckets that it is about.
type rule struct {
	text        string
	against     []string
	percentiles []int
	small       *bool   // only buckets up to one BDP (true), only buckets above (false), or all (nil)
	factor      float64 // ours may be so many times theirs
}

var yes, no = true, false

// The claims of the project, to be held against the data.
var rules = []rule{
	{"no worse than DCQCN and TIMELY at every size, median and 99th percentile", []string{"dcqcn", "timely"}, []int{50, 99}, nil, 1},
	{"no worse than Swift and HPCC at the 99th percentile for messages of less than one BDP", []string{"swift", "hpcc"}, []int{99}, &yes, 1},
	{"within 10 % of the best of all for the rest, median and 99th percentile", nil, []int{50, 99}, &no, 1.1},
}

// Claims holds the rules against the completion scenarios, for one scheme. Those
// that measured nothing to compare do not count.
func Claims(groups [][]*experiment.Summary, ours string) (claims []Claim) {
	for _, r := range rules {
		c := Claim{Text: r.text}
		for _, g := range groups {
			r.judge(&c, g, ours)
		}
		claims = append(claims, c)
	}
	return claims
}

func (r *rule) judge(c *Claim, group []*experiment.Summary, ours string) {
	mine := find(group, ours)
	if mine == nil {
		return
	}
	for i, b := range mine.Results[0].Buckets {
		small := b.Bytes != 0 && b.Bytes <= mine.Results[0].BDPBytes
		if r.small != nil && *r.small != small {
			continue
		}
		for _, p := range r.percentiles {
			if r.against != nil {
				for _, name := range r.against {
					r.compare(c, mine, find(group, name), i, p)
				}
			} else if best := bestOf(group, mine, i, p); best != nil {
				r.compare(c, mine, best, i, p)
			}
		}
	}
}

func (r *rule) compare(c *Claim, mine, theirs *experiment.Summary, i, p int) {
	if theirs == nil {
		return
	}
	a, b := mine.Slowdown(i, p), theirs.Slowdown(i, p)
	if math.IsNaN(a) || math.IsNaN(b) {
		return
	}
	c.Cases++
	if a <= b*r.factor {
		c.Held++
		return
	}
	c.Lost = append(c.Lost, fmt.Sprintf("%s, %s, percentile %d: %.2f against %.2f of %s",
		loadOf(mine.Scenario), experiment.BucketName(mine.Results[0].Buckets[i].Bytes), p, a, b, theirs.Scheme))
}

// bestOf is the scheme with the least slowdown that is not our own family.
func bestOf(group []*experiment.Summary, mine *experiment.Summary, i, p int) (best *experiment.Summary) {
	for _, s := range group {
		v := s.Slowdown(i, p)
		if s == mine || ownFamily[s.Scheme] || math.IsNaN(v) {
			continue
		}
		if best == nil || v < best.Slowdown(i, p) {
			best = s
		}
	}
	return best
}

func find(group []*experiment.Summary, scheme string) *experiment.Summary {
	for _, s := range group {
		if s.Scheme == scheme {
			return s
		}
	}
	return nil
}
