// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"
	"slices"
	"time"
)

// A peer is remembered while queue pairs lead there, and creditKeep longer, so that what either end was granted
// is used up or void. Without an end of that, an owner of many addresses could fill the memory of the engine, and
// each timer of pre-credit would look at all of them.

// creditKeep is how long a peer without queue pairs is remembered, in nanoseconds: the lifetime of a grant with
// its delays is a small part of it.
const creditKeep = int64(time.Minute)

// remember makes the record of a peer.
func (c *credits) remember(addr netip.Addr) *creditPeer {
	for c.ids[c.nextID] != nil {
		c.nextID++
	}
	p := &creditPeer{id: c.nextID, src: c.newSender()}
	c.nextID++
	c.peers[addr], c.ids[p.id], c.all = p, p, append(c.all, p)
	p.addr = addr
	return p
}

// keepIdle notes that the last queue pair of a peer has gone.
func (c *credits) keepIdle(now int64, p *creditPeer) {
	p.idleAt = now
	if c.forgetAt == 0 {
		c.forgetAt = now + creditKeep
	}
}

// keepStats adds what the sender towards a peer has counted to the counters of those that are forgotten.
func (c *credits) keepStats(p *creditPeer) {
	of := p.src.Stats()
	c.past.withheld += of.Waits
	c.past.ramps += of.Ramps
}

// forgetIdle forgets the peers that had no queue pairs for creditKeep, and have no share of the receiver. The
// receiver's account of a peer without share has ended long before.
func (c *credits) forgetIdle(now int64) {
	c.forgetAt = 0
	c.all = slices.DeleteFunc(c.all, func(p *creditPeer) bool {
		if p.dest != nil {
			return false
		}
		at := p.idleAt + creditKeep
		if at <= now && (p.ready || p.loss || c.recv.Share(p.id) != 0) {
			at = now + creditKeep
		}
		if at > now {
			if c.forgetAt == 0 || at < c.forgetAt {
				c.forgetAt = at
			}
			return false
		}
		c.keepStats(p)
		delete(c.peers, p.addr)
		delete(c.ids, p.id)
		return true
	})
}
