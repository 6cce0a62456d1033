// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2"
)

// credits is all that an engine has of pre-credit, as its hooks. It belongs to the engine's thread.
type credits struct {
	recv   *precredit.Receiver
	epochs *atomic.Uint32             // Options.CreditEpoch
	peers  map[netip.Addr]*creditPeer // kept for creditKeep: what an address was granted outlives its queue pairs
	all    []*creditPeer              // those of peers, in the order of their first connection
	ids    map[precredit.SenderID]*creditPeer
	nextID precredit.SenderID // of the next peer, if it is free

	forgetAt int64          // when a peer may be forgotten, 0 = none waits
	past     creditCounters // of peers that were forgotten

	link   uint64 // bit/s
	bdp    uint32 // of what a receiver plans with
	large  uint8  // Options.LargeDSCP
	poll   precredit.Poll
	timer  int64         // when an account expires or a queue pair has waited for creditMaxWait, 0 = never
	pollAt int64         // when to ask the table whether peers understand, 0 = all is known
	dirty  bool          // the receiver may have grants to send
	ready  []*creditPeer // a flow of theirs may have pre-credit now
	losses []*creditPeer // packets to them were sent again
	waits  bool          // queue pairs may wait in a first flight
	again  bool          // onIteration has enqueued queue pairs

	connects

	out   rocev2.Datagram
	stamp rocev2.Stamp
	count creditCounters
}

type creditCounters struct {
	used, returned, withheld, ramps, grants, returns, ignored uint64
}

// creditPeer is a host with which there is or was pre-credit, in both directions.
type creditPeer struct {
	id         precredit.SenderID
	addr       netip.Addr
	dest       *dest // nil while no queue pair leads there
	advertised bool  // HELLO announced it
	implied    bool  // or it has shown it
	enabled    bool
	pollsLeft  int   // to be had still whether it does
	idleAt     int64 // since when it has no queue pairs; dest is nil then
	qps        []*QP

	connectState

	src   *precredit.Sender
	ready bool // in a list of credits
	loss  bool
	probe probe
	epoch uint32
	void  uint32 // of this epoch, as last counted
}

// creditFlow is what a queue pair sends until its first ACK, and what its order of service
// depends on.
type creditFlow struct {
	precredit.Flow
	sent   uint64 // payload since the queue pair had nothing outstanding
	held   bool   // it sends nothing before a grant (precredit_connect.go)
	served uint64 // for its quantum: the same with headers, or of the READ that is responded to
}

// creditTotals are the counters of both halves.
type creditTotals struct {
	creditCounters
	given, drained, wasted, reclaimed, outstanding uint64
}
