// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
)

// Flow is one message to send.
type Flow struct {
	At       int64 // ns
	Src, Dst int   // hosts
	Bytes    int64 // bytes of payload
}

// NewRand is the source of randomness of all patterns: a PCG by seed and stream.
// Streams of one seed are independent, so that a pattern more does not change the
// flows of the others.
func NewRand(seed, stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, stream*0x9e3779b97f4a7c15+1))
}

// Uniform is traffic of all to all: every flow has a random source and another
// random destination, arrivals are a Poisson process.
type Uniform struct {
	Sizes    *CDF
	Hosts    int
	RateBps  uint64  // payload bit/s of a host's link
	Load     float64 // share of RateBps that hosts send on average
	From, To int64   // ns; arrivals in [From, To)
}

// Flows draws the flows, in order of time.
func (u Uniform) Flows(r *rand.Rand) ([]Flow, error) {
	switch {
	case u.Hosts < 2:
		return nil, fmt.Errorf("all to all among %d hosts: needs at least two", u.Hosts)
	case u.RateBps == 0 || !(u.Load > 0):
		return nil, fmt.Errorf("load %v of %d bit/s: both must be positive", u.Load, u.RateBps)
	case u.To < u.From:
		return nil, fmt.Errorf("arrivals from %d ns to %d ns: the end is before the start", u.From, u.To)
	}
	// Many independent hosts make one process of the sum of their rates.
	perNs := float64(u.Hosts) * u.Load * float64(u.RateBps) / (8 * u.Sizes.Mean()) / 1e9
	var flows []Flow
	for at := float64(u.From); ; {
		at += r.ExpFloat64() / perNs
		if at >= float64(u.To) {
			return flows, nil
		}
		src, dst := pair(r, u.Hosts)
		flows = append(flows, Flow{At: int64(at), Src: src, Dst: dst, Bytes: u.Sizes.Sample(r)})
	}
}

func pair(r *rand.Rand, hosts int) (src, dst int) {
	src = r.IntN(hosts)
	dst = r.IntN(hosts - 1)
	if dst >= src {
		dst++
	}
	return src, dst
}

// IncastFlows is a number of senders that send to one receiver at the same time, again
// and again: at random moments with random hosts, so that it makes Load of the
// capacity of all hosts.
type IncastFlows struct {
	Senders  int
	Bytes    int64 // bytes of each sender
	Hosts    int
	RateBps  uint64
	Load     float64 // share of the capacity of all hosts together
	From, To int64
}

// Flows draws the flows, in order of time.
func (n IncastFlows) Flows(r *rand.Rand) ([]Flow, error) {
	switch {
	case n.Senders < 1 || n.Senders >= n.Hosts:
		return nil, fmt.Errorf("incast of %d senders among %d hosts: needs more hosts than senders", n.Senders, n.Hosts)
	case n.Bytes < 1 || n.RateBps == 0 || !(n.Load > 0):
		return nil, fmt.Errorf("incast of %d bytes at load %v of %d bit/s: all must be positive", n.Bytes, n.Load, n.RateBps)
	case n.To < n.From:
		return nil, fmt.Errorf("incasts from %d ns to %d ns: the end is before the start", n.From, n.To)
	}
	perNs := float64(n.Hosts) * n.Load * float64(n.RateBps) / (8 * float64(n.Bytes) * float64(n.Senders)) / 1e9
	hosts := make([]int, n.Hosts)
	for i := range hosts {
		hosts[i] = i
	}
	var flows []Flow
	for at := float64(n.From); ; {
		at += r.ExpFloat64() / perNs
		if at >= float64(n.To) {
			return flows, nil
		}
		// The first places of a partial shuffle: the receiver, then the senders.
		for i := range n.Senders + 1 {
			j := i + r.IntN(len(hosts)-i)
			hosts[i], hosts[j] = hosts[j], hosts[i]
		}
		for _, src := range hosts[1 : n.Senders+1] {
			flows = append(flows, Flow{At: int64(at), Src: src, Dst: hosts[0], Bytes: n.Bytes})
		}
	}
}

// Merge puts flows of several patterns in order of time; among those of one moment
// the order of the arguments stays.
func Merge(patterns ...[]Flow) []Flow {
	all := slices.Concat(patterns...)
	slices.SortStableFunc(all, func(a, b Flow) int { return cmp.Compare(a.At, b.At) })
	return all
}
