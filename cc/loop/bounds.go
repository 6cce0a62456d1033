// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/priority"
)

// Bound is the name of a bound of a destination's rate. The name of the one that binds is the
// register bound of the destination.
type Bound uint8

// The bounds, in the order in which Bounds.Rate applies them.
//
//	bound          what it is                          set by               in force
//	BoundPolicy    rate of the four-case policy        fourcase.Step        always
//	BoundPriority  maximum and part of the node        priority.Sharer      if the nodes have priorities
//	BoundFloor     minimum of the node, at least       priority.Sharer      if the nodes have priorities
//	               min_rate_bps for each destination;
//	               a lower bound
//	BoundShare     even share of the link              priority.Even        if they have none
//	               max_rate_bps                        fourcase.Params      if they have, and the floor is above it
//	BoundReceiver  limit that the destination named    RATE_LIMIT           during its life
const (
	BoundUnknown Bound = iota // no decision yet, or one of an agent that did not write the register
	BoundPolicy
	BoundPriority
	BoundFloor
	BoundShare
	BoundReceiver
)

var boundNames = [...]string{"", "policy", "priority", "floor", "share", "receiver"}

func (b Bound) String() string {
	if int(b) < len(boundNames) {
		return boundNames[b]
	}
	return "unknown"
}

// Bounds are the bounds of one destination's rate, in bit/s. 0 is no bound.
type Bounds [BoundReceiver + 1]uint64

// Rate returns the rate, and the bound that sets it. The least bound sets it. The floor raises
// what policy and priority allow, but neither the share nor the receiver's limit. Of equal
// bounds, the last one is named. Without bounds the rate is 0.
func (b *Bounds) Rate() (bps uint64, by Bound) {
	for i, limit := range b {
		bound := Bound(i)
		if limit != 0 && (by == BoundUnknown || limit == bps || limit > bps == (bound == BoundFloor)) {
			bps, by = limit, bound
		}
	}
	return bps, by
}

// maxAhead bounds the policy's own rate, as a multiple of the rate: when another bound ends, the
// path has not been tried at more.
const maxAhead = 4

// policyRate returns what the policy's own rate becomes when bps is the rate: at least the floor,
// and at most maxAhead times bps, or least if that is more.
func (b *Bounds) policyRate(bps, least uint64) uint64 {
	ahead := maxAhead * min(bps, priority.All/maxAhead)
	return min(max(b[BoundPolicy], b[BoundFloor]), max(ahead, least))
}

// bounded lists the bounds of a destination for which the four-case policy has just decided, and
// returns its rate. It sets the name of the bound that binds, and the policy's own rate. share is
// the even share.
func (l *Loop) bounded(st *step, params *fourcase.Params, share, now uint64) (rate uint64) {
	b := Bounds{BoundPolicy: st.policy.RateBps, BoundReceiver: st.limit}
	least := params.MinRateBps
	var d *priority.Destination
	if l.prioritizes() {
		d = l.sharer.Destination(st.key.Addr, st.regs.Node)
		b[BoundPriority], b[BoundFloor] = d.Bounds()
		least = b[BoundFloor]
	}
	if share < params.MaxRateBps || share < b[BoundFloor] { // the policy is below max_rate_bps by itself
		b[BoundShare] = share
	}
	rate, st.bound = b.Rate()
	if params.Mode != fourcase.ModeFixed { // there the rate is configured: it stays in the registers
		st.policy.RateBps = b.policyRate(rate, least)
	}
	if d != nil {
		l.sharer.Observe(d, observe(st, params, rate), now)
	}
	if uint8(st.bound) != st.regs.Bound {
		st.set |= bpf.SetPolicy
	}
	return rate
}
