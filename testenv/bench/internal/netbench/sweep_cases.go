// SPDX-License-Identifier: Apache-2.0

package netbench

import (
	"fmt"
	"math/rand/v2"
)

// sweepCase is one run of perf.
type sweepCase struct {
	mtu     int // MTU of the link
	service string
	op      string
	size    int
	pmtu    int
	qps     int
	depth   int
}

func (c sweepCase) String() string {
	return fmt.Sprintf("%s %s, %d bytes, MTU %d, PMTU %d, %d queue pairs, depth %d", c.service, c.op, c.size, c.mtu, c.pmtu, c.qps, c.depth)
}

// The values of each dimension. Odd sizes end in a short packet; 1000 queue pairs with a depth of
// 64 and more have many times outstanding what a receiver has frames for.
var (
	mtus            = []int{1500, 9000}
	sweepOperations = [][2]string{
		{"rc", "write"}, {"rc", "read"}, {"rc", "send"}, {"rc", "fetch-add"}, {"rc", "compare-swap"},
		{"uc", "write"}, {"uc", "send"}, {"ud", "send"},
	}
	sweepSizes = []int{1, 256, 4096, 5003, 65536, 1 << 20}
	pmtus      = []int{256, 512, 1024, 2048, 4096}
	depths     = []int{1, 16, 64, 128}
	qps        = []int{1, 10, 100, 200, 400, 600, 1000}
)

const (
	headers  = 80       // of the largest packet, in addition to the PMTU
	memories = 64 << 20 // most bytes of all queue pairs' messages
)

// valid reports whether perf takes the case.
func (c sweepCase) valid() bool {
	atomic := c.op == "fetch-add" || c.op == "compare-swap"
	return c.pmtu+headers <= c.mtu && (!atomic || c.size == 8) && (c.service != "ud" || c.size <= c.pmtu) &&
		c.size*c.qps <= memories
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func random(r *rand.Rand) sweepCase {
	op := pick(r, sweepOperations)
	c := sweepCase{mtu: pick(r, mtus), service: op[0], op: op[1], size: pick(r, sweepSizes), pmtu: pick(r, pmtus), qps: pick(r, qps), depth: pick(r, depths)}
	if c.op == "fetch-add" || c.op == "compare-swap" {
		c.size = 8
	}
	return c
}

// pairs are all combinations of two of the case's values.
func (c sweepCase) pairs() (out []string) {
	v := []string{
		fmt.Sprint("m", c.mtu), c.service + c.op, fmt.Sprint("s", c.size), fmt.Sprint("p", c.pmtu), fmt.Sprint("q", c.qps), fmt.Sprint("d", c.depth),
	}
	for i := range v {
		for j := range i {
			out = append(out, v[i]+" "+v[j])
		}
	}
	return out
}

// candidates is how many random cases are looked at for each one that is taken.
const candidates = 300

// pairwise returns cases in which every combination of any two values occurs, as far as perf takes
// it: what goes wrong mostly needs no more than two. The same cases each time, by MTU.
func pairwise() []sweepCase {
	r := rand.New(rand.NewPCG(4, 2))
	seen := map[string]bool{}
	byMTU := map[int][]sweepCase{}
	for {
		var best sweepCase
		most := 0
		for range candidates {
			c := random(r)
			if !c.valid() {
				continue
			}
			n := 0
			for _, p := range c.pairs() {
				if !seen[p] {
					n++
				}
			}
			if n > most {
				best, most = c, n
			}
		}
		if most == 0 {
			break
		}
		for _, p := range best.pairs() {
			seen[p] = true
		}
		byMTU[best.mtu] = append(byMTU[best.mtu], best)
	}
	var out []sweepCase
	for _, m := range mtus {
		out = append(out, known(m)...)
		out = append(out, byMTU[m]...)
	}
	return out
}

// known are cases that went wrong once: the engine did not come to the end of a turn, or sent
// almost everything twice.
func known(mtu int) []sweepCase {
	if mtu < 4096+headers {
		return []sweepCase{
			{mtu: mtu, service: "rc", op: "write", size: 4096, pmtu: 1024, qps: 400, depth: 64},
			{mtu: mtu, service: "rc", op: "write", size: 4096, pmtu: 1024, qps: 600, depth: 64},
			{mtu: mtu, service: "rc", op: "read", size: 4096, pmtu: 1024, qps: 1000, depth: 64},
		}
	}
	return []sweepCase{
		{mtu: mtu, service: "rc", op: "write", size: 4096, pmtu: 4096, qps: 1000, depth: 64},
		{mtu: mtu, service: "rc", op: "send", size: 5003, pmtu: 4096, qps: 200, depth: 16},
		{mtu: mtu, service: "rc", op: "send", size: 5003, pmtu: 4096, qps: 200, depth: 128},
		{mtu: mtu, service: "rc", op: "read", size: 4096, pmtu: 4096, qps: 1000, depth: 64},
	}
}
