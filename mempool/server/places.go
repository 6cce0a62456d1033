// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
)

// Bounds of what hosts can make the server keep that are not nodes. Hosts with one prefix, a /24 or a /64, share theirs.
const (
	// maxOpenings is how many connections wait for the Begin of their peer. The oldest one ends for another one: with
	// 1000 forged requests per second from one prefix, a peer has 32 ms for its Begin, and from many prefixes 128 ms.
	maxOpenings          = 128
	maxOpeningsOfPrefix  = 32
	maxQuestions         = 32 // connections of peers that ask for the state, or remove a node
	maxQuestionsOfPrefix = 8
)

// places are a limited number of something, in the order in which they were taken.
type places struct {
	most, mostOfPrefix int

	mu    sync.Mutex
	taken []*place
}

type place struct {
	prefix netip.Prefix
	yield  func() // end of the owner, when another one needs the place; nil: the owner stays
}

// take returns how to release a place for a host. ok is false if there is none and the oldest one stays.
func (p *places) take(host net.Addr, yield func()) (release func(), ok bool) {
	x := &place{prefixOf(host), yield}
	p.mu.Lock()
	defer p.mu.Unlock()
	oldest, same := -1, 0
	for i, o := range p.taken {
		if o.prefix == x.prefix {
			if same == 0 {
				oldest = i
			}
			same++
		}
	}
	if same < p.mostOfPrefix {
		oldest = 0
	}
	if same >= p.mostOfPrefix || len(p.taken) >= p.most {
		old := p.taken[oldest]
		if old.yield == nil {
			return nil, false
		}
		p.taken = slices.Delete(p.taken, oldest, oldest+1)
		old.yield()
	}
	p.taken = append(p.taken, x)
	return func() { p.release(x) }, true
}

func (p *places) release(x *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = slices.DeleteFunc(p.taken, func(o *place) bool { return o == x })
}

// prefixOf returns the prefix of a host that shares places with its neighbours.
func prefixOf(host net.Addr) netip.Prefix {
	a, ok := host.(rdma.Addr)
	if !ok {
		return netip.Prefix{}
	}
	ip, bits := a.Addr().Unmap(), 64
	if ip.Is4() {
		bits = 24
	}
	p, _ := ip.WithZone("").Prefix(bits) // the length is in range
	return p
}
