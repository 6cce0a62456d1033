// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"time"

	"github.com/softroce/softroce-xdp/cc/precredit"
)

// A peer is remembered while queue pairs lead there, and creditKeep longer, so that what either end was granted
// is used up or void. Without an end of that, an owner of many addresses could fill the memory of the engine, and
// each timer of pre-credit would look at all of them.

// creditKeep is how long a peer without queue pairs is remembered, in nanoseconds: the lifetime of a grant with
// its delays is a small part of it.
const creditKeep = int64(time.Minute)

// remember makes the record of a peer.
func (c *credits) remember(addr netip.Addr) *creditPeer {
	for c.end.Peer(c.nextID) != nil {
		c.nextID++
	}
	p := c.add(c.nextID, addr, false)
	c.nextID++
	return p
}

// add makes the record of a peer. keep: it is never forgotten.
func (c *credits) add(id precredit.SenderID, addr netip.Addr, keep bool) *creditPeer {
	p := &creditPeer{c: c, addr: addr, keep: keep}
	p.Peer = c.end.NewPeer(id, p, c.sender)
	c.peers[addr] = p
	return p
}

// peerOf returns the record of the peer at a destination, which is made if there is none. nil: a peer of this number has
// queue pairs at another destination.
func (c *credits) peerOf(d *dest) *creditPeer {
	if d.entry == nil {
		if p := c.peers[d.addr]; p != nil {
			return p
		}
		return c.remember(d.addr)
	}
	id := precredit.SenderID(d.entry.ID())
	if peer := c.end.Peer(id); peer != nil {
		p := peer.Port.(*creditPeer)
		if p.dest != nil && p.dest != d {
			return nil
		}
		if p.addr != d.addr {
			c.move(p, d.addr)
		}
		return p
	}
	return c.add(id, d.addr, true)
}

// move gives a peer without queue pairs another address. What the node at the old one has granted is void.
func (c *credits) move(p *creditPeer, to netip.Addr) {
	if c.peers[p.addr] == p {
		delete(c.peers, p.addr)
	}
	p.addr, c.peers[to] = to, p
	p.Renew()
}

// mayCredit reports whether the peer of a queue pair at a destination may have pre-credit: an engine, or one that has a
// number in the program's table.
func (d *dest) mayCredit(destQPN uint32) bool {
	if d.entry != nil {
		return d.entry.ID() != 0
	}
	return ofEngine(destQPN)
}

// keepIdle notes that the last queue pair of a peer has gone.
func (c *credits) keepIdle(now int64, p *creditPeer) {
	p.idleAt = now
	if c.forgetAt == 0 {
		c.forgetAt = now + creditKeep
	}
}

// forgetIdle forgets the peers that had no queue pairs for creditKeep, and have no share of the receiver. The
// receiver's account of a peer without share has ended long before.
func (c *credits) forgetIdle(now int64) {
	c.forgetAt = 0
	c.end.Forget(func(peer *precredit.Peer) bool {
		p := peer.Port.(*creditPeer)
		if p.dest != nil || p.keep {
			return false
		}
		at := p.idleAt + creditKeep
		if at <= now && p.Busy() {
			at = now + creditKeep
		}
		if at > now {
			if c.forgetAt == 0 || at < c.forgetAt {
				c.forgetAt = at
			}
			return false
		}
		delete(c.peers, p.addr)
		return true
	})
}
