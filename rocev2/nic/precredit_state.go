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
	all    []*creditPeer              // peers in the order of their first connection
	ids    map[precredit.SenderID]*creditPeer
	nextID precredit.SenderID // ID of the next peer, if it is free

	forgetAt int64          // earliest time to forget a peer, 0 = none waits
	past     creditCounters // counters of peers that were forgotten

	link   uint64 // bit/s
	bdp    uint32 // BDP that a receiver plans with, bytes
	large  uint8  // Options.LargeDSCP
	poll   precredit.Poll
	timer  int64         // next time that an account expires or a queue pair has waited for creditMaxWait, 0 = never
	pollAt int64         // time of the next poll of the table for capabilities of peers, 0 = all are known
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
	implied    bool  // a packet of the peer showed that it has pre-credit
	enabled    bool
	pollsLeft  int   // remaining polls for the peer's capability
	idleAt     int64 // beginning of the time without queue pairs; dest is nil then
	qps        []*QP

	connectState

	src   *precredit.Sender
	ready bool // the peer is in a list of credits
	loss  bool
	probe probe
	epoch uint32
	void  uint32 // expired credit of this epoch, as last counted
}

// creditFlow is what a queue pair sends until its first ACK, and what its order of service
// depends on.
type creditFlow struct {
	precredit.Flow
	sent   uint64 // payload since the queue pair had nothing outstanding
	held   bool   // nothing is sent before a grant (precredit_connect.go)
	served uint64 // bytes counted for its quantum: the same with headers, or of the READ that is responded to
}

// creditTotals are the counters of both halves.
type creditTotals struct {
	creditCounters
	given, drained, wasted, reclaimed, outstanding uint64
}
