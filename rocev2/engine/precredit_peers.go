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
	p := &creditPeer{c: c, addr: addr}
	p.Peer = c.end.NewPeer(c.nextID, p, c.sender)
	c.nextID++
	c.peers[addr] = p
	return p
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
		if p.dest != nil {
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
