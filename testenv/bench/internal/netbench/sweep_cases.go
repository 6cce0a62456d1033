// SPDX-License-Identifier: Apache-2.0

package netbench

import (
	"fmt"
	"math/rand/v2"
)

// Case is one run of perf.
type Case struct {
	MTU     int // MTU of the link
	Service string
	Op      string
	Size    int
	PMTU    int
	QPs     int
	Depth   int
}

func (c Case) String() string {
	return fmt.Sprintf("%s %s, %d bytes, MTU %d, PMTU %d, %d queue pairs, depth %d", c.Service, c.Op, c.Size, c.MTU, c.PMTU, c.QPs, c.Depth)
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
func (c Case) valid() bool {
	atomic := c.Op == "fetch-add" || c.Op == "compare-swap"
	return c.PMTU+headers <= c.MTU && (!atomic || c.Size == 8) && (c.Service != "ud" || c.Size <= c.PMTU) &&
		c.Size*c.QPs <= memories
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func random(r *rand.Rand) Case {
	op := pick(r, sweepOperations)
	c := Case{MTU: pick(r, mtus), Service: op[0], Op: op[1], Size: pick(r, sweepSizes), PMTU: pick(r, pmtus), QPs: pick(r, qps), Depth: pick(r, depths)}
	if c.Op == "fetch-add" || c.Op == "compare-swap" {
		c.Size = 8
	}
	return c
}

// pairs are all combinations of two of the case's values.
func (c Case) pairs() (out []string) {
	v := []string{
		fmt.Sprint("m", c.MTU), c.Service + c.Op, fmt.Sprint("s", c.Size), fmt.Sprint("p", c.PMTU), fmt.Sprint("q", c.QPs), fmt.Sprint("d", c.Depth),
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

// Pairwise returns cases in which every combination of any two values occurs, as far as perf takes
// it: what goes wrong mostly needs no more than two. The same cases each time, by MTU.
func Pairwise() []Case {
	r := rand.New(rand.NewPCG(4, 2))
	seen := map[string]bool{}
	byMTU := map[int][]Case{}
	for {
		var best Case
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
		byMTU[best.MTU] = append(byMTU[best.MTU], best)
	}
	var out []Case
	for _, m := range mtus {
		out = append(out, Known(m)...)
		out = append(out, byMTU[m]...)
	}
	return out
}

// Known are cases that went wrong once: the engine did not come to the end of a turn, or sent
// almost everything twice.
func Known(mtu int) []Case {
	if mtu < 4096+headers {
		return []Case{
			{MTU: mtu, Service: "rc", Op: "write", Size: 4096, PMTU: 1024, QPs: 400, Depth: 64},
			{MTU: mtu, Service: "rc", Op: "write", Size: 4096, PMTU: 1024, QPs: 600, Depth: 64},
			{MTU: mtu, Service: "rc", Op: "read", Size: 4096, PMTU: 1024, QPs: 1000, Depth: 64},
		}
	}
	return []Case{
		{MTU: mtu, Service: "rc", Op: "write", Size: 4096, PMTU: 4096, QPs: 1000, Depth: 64},
		{MTU: mtu, Service: "rc", Op: "send", Size: 5003, PMTU: 4096, QPs: 200, Depth: 16},
		{MTU: mtu, Service: "rc", Op: "send", Size: 5003, PMTU: 4096, QPs: 200, Depth: 128},
		{MTU: mtu, Service: "rc", Op: "read", Size: 4096, PMTU: 4096, QPs: 1000, Depth: 64},
	}
}
