// SPDX-License-Identifier: Apache-2.0

package card

import (
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/creditwire"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// creditFrame is the frame that next writes.
type creditFrame struct {
	buf     []byte
	port, n int
}

// next writes the next frame of pre-credit to buf: a message to a node, or a packet that has
// pre-credit. n is 0 if there is none.
func (c *credits) next(now qp.Time, buf []byte) (port, n int) {
	c.step(now)
	if port, n = c.nextMessage(now, buf); n > 0 {
		return port, n
	}
	c.frame = creditFrame{buf: buf}
	c.end.Send(int64(now))
	port, n = c.frame.port, c.frame.n
	c.frame.buf = nil
	if n == 0 && c.closing {
		c.remove()
	}
	return port, n
}

// nextMessage writes a CREDIT_RETURN or CREDIT_GRANT.
func (c *credits) nextMessage(now qp.Time, buf []byte) (port, n int) {
	for len(c.returns) > 0 {
		r := c.returns[0]
		c.returns = c.returns[1:]
		creditwire.PutReturn(&c.out, r.m)
		if port, n = c.d.control(r.p, &c.out, now, buf); n > 0 {
			c.end.Counts.Returns++
			return port, n
		}
	}
	for {
		p, g, ok := c.end.NextGrant(int64(now))
		if !ok {
			return 0, 0
		}
		creditwire.PutGrant(&c.out, g)
		if port, n = c.d.control(p.Port.(*creditPeer), &c.out, now, buf); n > 0 {
			c.end.Counts.Grants++
			return port, n
		}
	}
}

// control writes a message to a node as a frame. Its stamp has no echo: an echo counts once, and
// the data plane reads none there. Length 0: it cannot be sent, and is taken for lost.
func (d *dataPath) control(p *creditPeer, o *rocev2.Datagram, now qp.Time, buf []byte) (i, n int) {
	i, ok := d.portOf(&p.path)
	if !ok {
		return 0, 0
	}
	from, at := d.port(i), d.time(now)
	o.Src, o.Dst, o.TOS, o.TTL = p.path.src, p.path.dst, p.path.tclass, p.path.hopLimit
	size := o.Len(0)
	d.stamp = rocev2.Stamp{Flags: rocev2.StampT1, Token: regs.DestOf(d.in, int(p.ID)-1).TxToken(), T1: at}
	o.Stamp = &d.stamp
	if _, err := o.Begin(buf[etherLen:], 0); err != nil || !from.enable || size+rocev2.StampLen > int(from.mtu) {
		return 0, 0
	}
	return d.finish(i, &from, &p.path, o, size, buf, now)
}

// ahead is how many bytes the pacer of a node may owe.
func (d *dataPath) ahead(node uint32) uint64 {
	if d.credits == nil {
		return 0
	}
	p := d.credits.peer(node)
	if p == nil {
		return 0
	}
	return p.ahead
}

// charged notes a frame of n bytes that the pacer counts. idle: the pacer owed nothing before.
func (c *credits) charged(node uint32, n int, credited, idle bool) {
	p := c.peer(node)
	if p == nil {
		return
	}
	if idle {
		p.ahead = 0
	}
	if credited {
		p.ahead += uint64(n)
	}
}

// mayStart blocks large flows without pre-credit in the first flight. The endpoint enqueues them again
// when it ends (Apply).
func (c *credits) mayStart(x *queuePair, now qp.Time) bool {
	may, ask := x.credit.peer.MayStart(int64(now), &x.credit.Flow)
	if ask {
		x.q.RequestAckNext()
	}
	return may
}

// served is called after a turn of a queue pair: it has sent a packet, or it has none (idle).
// Others that wait for room are next.
func (c *credits) served(x *queuePair, idle bool) {
	if p := x.credit.peer; idle || p.flight.Waiting() {
		x.q.EndService()
		c.unblock(p)
	}
}

// onSend writes credit into the option of a packet.
func (c *credits) onSend(x *queuePair, o *qp.Outbound, credited bool, now qp.Time) {
	c.shown.stale = true
	if p := x.credit.peer; p.Enabled() {
		creditwire.Stamp(int64(now), p.Peer, &x.credit.Flow, o, credited)
	}
}
