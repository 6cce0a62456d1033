// SPDX-License-Identifier: Apache-2.0

// Package discovery decides when the agent sends HELLO to which peer. The answers show the
// capabilities of the peer (timestamp option, SACK, pre-credit) and that it still exists.
//
// Peers is a state machine: times come in as an argument, HELLOs that are due come out as
// keys, and the agent sends them. It trusts its caller: the data plane has checked the
// nonce of a HELLO_ACK and the token of a HELLO (docs/run/security.md) before the agent
// reports them here.
//
//	event                                    reaction
//	first packet to a destination (Add)      HELLO at once, then after the delays of firstDelays
//	entry of an earlier agent (Adopt)        HELLO at a random time within Refresh
//	HELLO_ACK (OnAck)                        next HELLO after Refresh
//	HELLO_ACK that measured nothing (Repeat) HELLO after 20 ms, up to three times
//	HELLO of the peer (OnHello)              HELLO at once if the peer has changed
//	own capabilities changed (Announce)      HELLO to all that understand the option
//	no HELLO_ACK to four refreshes (Due)     reported as lost
package discovery

import (
	"container/heap"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
)

// firstDelays are the times between the first HELLOs to a peer that does not answer. They
// grow, since most peers that do not answer never will.
var firstDelays = [...]time.Duration{
	0, 50 * time.Millisecond, 200 * time.Millisecond, time.Second, 5 * time.Second, 30 * time.Second,
}

const (
	// Refresh is the time between two HELLOs to a peer that answered, or that never did.
	Refresh = time.Minute

	maxMissed  = 3  // refreshes without an answer until a peer is lost
	maxPerCall = 32 // HELLOs per call of Due, so that a large table spreads out
	// The HELLOs of one peer cause at most maxReplies HELLOs in a replyPeriod. An engine that starts at
	// both hosts within a second causes two of each: its capabilities change twice.
	maxReplies  = 3
	replyPeriod = 5 * time.Second

	repeatDelay = 20 * time.Millisecond
	maxRepeats  = 3
)

// Peers has the state of all peers. Times are nanoseconds of the monotonic clock.
type Peers struct {
	all    map[bpf.DestKey]*peer
	queue  queue
	random func(n uint64) uint64
}

// peer is the state of one peer. Every entry of the destination table has one, so it is
// small and has no pointers.
type peer struct {
	key     bpf.DestKey
	due     uint64 // time of the next HELLO
	since   uint64 // start of the replyPeriod: due time of the first HELLO that a HELLO of the peer caused in it
	index   int32  // index in the queue
	caps    uint16 // capabilities in the last HELLO_ACK
	tries   uint8  // index into firstDelays
	missed  uint8  // refreshes without an answer
	repeats uint8
	replies uint8 // HELLOs since `since` that HELLOs of the peer caused
	aware   bool  // the peer understands the option
}

// New returns the state without peers. random returns a number from 0 to n-1, as
// math/rand/v2.Uint64N does.
func New(random func(n uint64) uint64) *Peers {
	return &Peers{all: map[bpf.DestKey]*peer{}, random: random}
}

// Len returns the number of peers.
func (p *Peers) Len() int { return len(p.all) }

// Add adds a peer whose first HELLO is due at once. caps are the capabilities in its table
// entry. A peer with CapStatic is not added: its capabilities are configured.
func (p *Peers) Add(key bpf.DestKey, caps uint16, now uint64) {
	p.push(peer{key: key, due: now, caps: caps, aware: caps&bpf.CapStamp != 0})
}

// Adopt adds a peer that an earlier agent has discovered. Its HELLO is due at a random
// time within Refresh, so that a large table is not asked all at once.
func (p *Peers) Adopt(key bpf.DestKey, caps uint16, now uint64) {
	p.push(peer{
		key: key, due: now + p.random(uint64(Refresh)), caps: caps,
		aware: caps&bpf.CapStamp != 0, tries: uint8(len(firstDelays) - 1),
	})
}

func (p *Peers) push(x peer) {
	if x.caps&bpf.CapStatic != 0 || p.all[x.key] != nil {
		return
	}
	p.all[x.key] = &x
	heap.Push(&p.queue, &x)
}

// Remove removes a peer.
func (p *Peers) Remove(key bpf.DestKey) {
	if x, ok := p.all[key]; ok {
		heap.Remove(&p.queue, int(x.index))
		delete(p.all, key)
	}
}

// OnAck takes a HELLO_ACK with the right nonce. It reports whether the peer's
// capabilities have changed.
func (p *Peers) OnAck(key bpf.DestKey, caps uint16, now uint64) (changed bool) {
	x, ok := p.all[key]
	if !ok {
		return false
	}
	changed = !x.aware || x.caps != caps
	x.aware, x.missed, x.tries, x.caps = true, 0, 0, caps
	p.reschedule(x, now+uint64(Refresh))
	return changed
}

// Repeat sends another HELLO soon, as the HELLO_ACK has measured nothing. Where the agent
// answers and not the data plane (veth), a peer that discovers this host has no entry that
// could store T1, and so nothing to echo; a moment later it has. Data that is sent before
// would be the first sample, through the queue that it makes.
func (p *Peers) Repeat(key bpf.DestKey, now uint64) {
	if x, ok := p.all[key]; ok && x.repeats < maxRepeats {
		x.repeats++
		p.reschedule(x, now+uint64(repeatDelay))
	}
}

// OnHello takes a HELLO of a peer. proven: it carries the token of this host, which only
// a host that receives at its address can know. A peer whose capabilities differ from its
// last HELLO_ACK, or that lost the token, was attached anew: a HELLO becomes due.
//
// A peer without state is asked only if proven (ask), and still gets no state before it
// has answered: forged HELLOs store nothing and have nothing sent.
func (p *Peers) OnHello(key bpf.DestKey, caps uint16, proven bool, now uint64) (ask bool) {
	x, ok := p.all[key]
	if !ok {
		return proven
	}
	if x.aware && x.caps == caps && proven {
		return false
	}
	// Two hosts that answer each HELLO with one of their own must not flood each other.
	due := max(now, x.since)
	if x.replies == maxReplies {
		due = max(due, x.since+uint64(replyPeriod))
	}
	if !x.aware && due > now || due >= x.due {
		return false
	}
	if x.replies == 0 || due >= x.since+uint64(replyPeriod) {
		x.since, x.replies = due, 0
	}
	x.replies++
	p.reschedule(x, due)
	return false
}

// Announce makes a HELLO due to all peers that understand the option: the capabilities of
// this host have changed. A HELLO proves nothing to a peer, but makes it ask.
func (p *Peers) Announce(now uint64) {
	for _, x := range p.all {
		if x.aware && x.due > now {
			p.reschedule(x, now)
		}
	}
}

// Due returns the peers to send HELLO to now, and those that have stopped answering. used
// reports whether a peer had traffic since a time: a peer without traffic is not asked.
func (p *Peers) Due(now uint64, used func(key bpf.DestKey, since uint64) bool) (ask, lost []bpf.DestKey) {
	for n := 0; n < maxPerCall && len(p.queue) > 0 && p.queue[0].due <= now; n++ {
		x := p.queue[0]
		if x.refreshing() && !used(x.key, now-uint64(Refresh)) {
			p.reschedule(x, now+uint64(Refresh))
			continue
		}
		if x.aware {
			if x.missed++; x.missed > maxMissed {
				x.aware, x.missed, x.tries = false, 0, uint8(len(firstDelays)-1)
				lost = append(lost, x.key)
			}
		}
		ask = append(ask, x.key)
		p.reschedule(x, now+uint64(x.next()))
	}
	return ask, lost
}

// refreshing reports whether the first HELLOs are over.
func (x *peer) refreshing() bool { return x.aware || int(x.tries) >= len(firstDelays)-1 }

// next returns the time until the next HELLO to a peer that does not answer.
func (x *peer) next() time.Duration {
	if x.refreshing() {
		return Refresh
	}
	x.tries++
	return firstDelays[x.tries]
}
