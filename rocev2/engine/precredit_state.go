// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2"
)

// credits is all that a core has of pre-credit, as its hooks.
type credits struct {
	e      *Core
	end    *precredit.Endpoint
	sender precredit.SenderParams     // parameters of the senders
	epochs *atomic.Uint32             // PreCredit.Epoch
	peers  map[netip.Addr]*creditPeer // kept for creditKeep: what an address was granted outlives its queue pairs
	nextID precredit.SenderID         // number of the next peer, if it is free

	forgetAt int64 // earliest time to forget a peer, 0 = none waits

	large       uint8 // PreCredit.LargeDSCP
	poll        precredit.Poll
	pollAt      int64 // time of the next poll of the table for capabilities of peers, 0 = all are known
	again       bool  // onIteration has enqueued queue pairs
	room, tries int   // packets that this iteration may still send ahead, and queue pairs that it may ask for one

	connects

	out   rocev2.Datagram
	stamp rocev2.Stamp
}

// creditPeer is a host with which there is or was pre-credit, and its port to the engine.
type creditPeer struct {
	*precredit.Peer
	c         *credits
	addr      netip.Addr
	dest      *dest // nil while no queue pair leads there
	pollsLeft int   // remaining polls for the peer's capability
	idleAt    int64 // beginning of the time without queue pairs; dest is nil then
	probe     probe
	keep      bool // the peer has an entry: it is never forgotten

	// Bytes in flight before a timer of the transport ran out, which may have found some lost. 0 = not during such a call.
	beforeTimeout uint64

	// Address of the queue pair that was connected last, for control packets.
	last    Address
	lastSrc netip.Addr

	connectState
}

// creditFlow is what a queue pair sends until its first ACK, and what its order of service
// depends on.
type creditFlow struct {
	precredit.Flow
	sent   uint64 // payload since the queue pair had nothing outstanding
	held   bool   // nothing is sent before a grant (precredit_connect.go)
	served uint64 // bytes counted for its quantum: the same with headers, or of the READ that is responded to
}

// PreCreditCounters are the counters of both halves.
type PreCreditCounters struct {
	precredit.Counts
	precredit.SenderStats
	given, drained, wasted, reclaimed, outstanding uint64
}

// now is the time of the iteration.
func (c *credits) now() int64 { return int64(c.e.now) }

// PreCreditCounters returns the counters of pre-credit, which are zero if it is off.
func (e *Core) PreCreditCounters() PreCreditCounters {
	if c, ok := e.hooks.(*credits); ok {
		return c.totals()
	}
	return PreCreditCounters{}
}

func (c *credits) totals() PreCreditCounters {
	r := c.end.Receiver
	s := r.Stats()
	return PreCreditCounters{
		Counts: c.end.Counts, SenderStats: c.end.SenderStats(), given: s.Given, drained: s.Drained,
		wasted: s.Void + s.Lost + s.Reclaimed, reclaimed: s.Reclaimed, outstanding: uint64(r.Outstanding()),
	}
}
