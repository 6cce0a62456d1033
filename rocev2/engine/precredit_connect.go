// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"time"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/creditwire"
)

// When a queue pair connects, the peer's grant comes ahead of the first data (S5.1). A queue pair
// that has none sends nothing until one comes, for CreditHold at most: the peer repeats its grant
// every creditRetry until it is answered, so a lost one costs a part of that. With the
// communication manager the passive end connects first, and its grant may arrive before this end has
// its queue pair in RTR: it is kept.

// CreditHold is how long the first data of a queue pair waits for a grant.
const CreditHold = 4 * time.Duration(creditRetry)

// earlyLimit is how many grants are kept that arrived before their queue pair was connected.
const earlyLimit = 1024

// earlyGrant is such a grant.
type earlyGrant struct {
	precredit.Grant
	at int64 // arrival time
}

// connectState is what creditPeer has for the time until the first grant.
type connectState struct {
	holdUntil int64 // queue pairs that are held send nothing until then; 0: none is
}

// connects has what credits needs for that.
type connects struct {
	hold   int64 // length of a hold, ns
	early  map[netip.Addr]earlyGrant
	holdAt int64 // end of the first hold, 0 = none
}

// keepEarly keeps a grant of a peer to which no queue pair is connected yet. Ingress has checked
// that it is the peer's.
func (c *credits) keepEarly(now int64, pkt *rocev2.Packet) {
	b := pkt.CreditGrant()
	if b == nil {
		return
	}
	if c.early == nil || len(c.early) >= earlyLimit {
		c.early = map[netip.Addr]earlyGrant{}
	}
	c.early[pkt.Src()] = earlyGrant{creditwire.Grant(b), now}
}

// knownAtConnect turns pre-credit on with a peer of which the destination table has said before that
// it understands.
func (c *credits) knownAtConnect(p *creditPeer) {
	if p.dest.stamps && p.dest.offersCredit && p.Understands(true, true) {
		c.turnOn(p)
	}
}

// takeEarly takes a grant that came early.
func (c *credits) takeEarly(p *creditPeer) {
	g, ok := c.early[p.dest.addr]
	if !ok {
		return
	}
	delete(c.early, p.dest.addr)
	if g.LifeNs -= c.now() - g.at; g.LifeNs > 0 {
		c.onGrant(p, g.Grant)
	}
}

// awaitGrant begins the wait of a queue pair that has just been connected, unless there is
// pre-credit.
func (c *credits) awaitGrant(x *QP) {
	now, p := c.now(), x.dest.credit
	if !p.Enabled() || p.Usable(now) > 0 {
		return
	}
	if p.holdUntil <= now { // it has ended: nobody waits for longer
		c.endHold(p)
	}
	x.credit.held = true
	if p.holdUntil == 0 { // else it joins the hold of others, which does not become longer
		p.holdUntil = now + c.hold
	}
	if c.holdAt == 0 || p.holdUntil < c.holdAt {
		c.holdAt = p.holdUntil
	}
}

// onGrant takes a grant, and has the queue pairs that waited for it send.
func (c *credits) onGrant(p *creditPeer, g precredit.Grant) {
	if p.Grant(c.now(), g) {
		c.endHold(p)
	}
}

// endHold has the queue pairs of a peer send.
func (c *credits) endHold(p *creditPeer) {
	if p.holdUntil == 0 {
		return
	}
	p.holdUntil = 0
	for _, f := range p.Flows() {
		if x := f.Data.(*QP); x.credit.held {
			x.credit.held = false
			c.e.tx.enqueue(&x.egress)
		}
	}
}

// endHolds ends the waits that have lasted for so long.
func (c *credits) endHolds() {
	c.holdAt = 0
	for _, peer := range c.end.Peers() {
		p := peer.Port.(*creditPeer)
		switch at := p.holdUntil; {
		case at == 0:
		case at <= c.now():
			c.again = true
			c.endHold(p)
		case c.holdAt == 0 || at < c.holdAt:
			c.holdAt = at
		}
	}
}
