// SPDX-License-Identifier: Apache-2.0

package card

import (
	"math"
	"slices"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/creditwire"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Pre-credit (S5) with the nodes that understand it, while control.enable of block precredit is set; else
// dataPath.credits is nil. What leaves on pre-credit, and who waits, is decided by precredit.Endpoint, as in
// the engine (rocev2/engine/precredit.go). This file has nodes, connections and flows, precredit_port.go what the
// endpoint needs of the card, precredit_send.go what leaves, precredit_receive.go what arrives, and
// precredit_regs.go the registers.
//
// A flow is what a queue pair of RC posts from the moment that it has nothing outstanding until
// its first ACK. Its packets leave on pre-credit, ahead of the pacer. Writes of the driver have no
// time: step handles them when the next frame is asked for.

// capCredit is SR_CAP_CREDIT of bpf/lib/abi.h.
const capCredit = 4

// credits is the state of pre-credit.
type credits struct {
	d      *dataPath
	end    *precredit.Endpoint
	sender precredit.SenderParams

	posted  []postedWork
	returns []creditReturn // credit returns to be sent
	look    bool           // capabilities of nodes may have changed
	closing bool           // enable was cleared, and the last messages have not left

	shown creditView
	out   rocev2.Datagram
	frame creditFrame
}

// creditPeer is a node with which there is or was pre-credit, and its port to the card. The number of
// the peer is that of the node.
type creditPeer struct {
	*precredit.Peer
	c      *credits
	path   address // address of the queue pair that was connected last
	flight qp.Flight
	ahead  uint64 // bytes that have left ahead of the rate since the pacer was idle
}

// creditFlow is a queue pair's part of pre-credit.
type creditFlow struct {
	precredit.Flow
	peer *creditPeer
}

type postedWork struct {
	x *queuePair
	w precredit.Work
}

type creditReturn struct {
	p *creditPeer
	m precredit.Return
}

// setCredits starts or ends pre-credit when enable changes.
func (d *dataPath) setCredits(was, now regs.PrecreditControl) {
	switch {
	case was.Enable() == now.Enable():
		return
	case !now.Enable():
		if d.credits != nil {
			d.credits.close()
		}
	default:
		if d.credits != nil {
			d.credits.remove()
		}
		d.startCredits()
	}
	signal(d.m.wake)
}

// startCredits starts pre-credit if the parameters are within their ranges.
func (d *dataPath) startCredits() {
	r, s, ok := readCreditParams(regs.PrecreditOf(d.in))
	if !ok || r.Validate() != nil || s.Validate() != nil {
		return
	}
	epoch := regs.PrecreditOf(d.in).Epoch()
	if d.creditsUsed && int32(epoch-d.creditEpoch) < 0 {
		epoch = d.creditEpoch
	}
	d.creditsUsed = true
	d.credits = &credits{d: d, end: precredit.NewEndpoint(r, epoch), sender: s, look: true}
	d.credits.shown = creditView{stale: true, changes: d.m.values[regs.PrecreditBase+regs.PrecreditListChangesOffset]}
	d.showCreditState(true)
	pairs := make([]*queuePair, 0, len(d.qps))
	for _, x := range d.qps {
		pairs = append(pairs, x)
	}
	slices.SortFunc(pairs, func(a, b *queuePair) int { return int(a.num) - int(b.num) })
	for _, x := range pairs {
		d.credits.connect(x)
	}
}

// close gives back what is not used, and recalls what was granted. The messages leave when frames
// are asked for; then remove is called.
func (c *credits) close() {
	for _, peer := range c.end.Peers() {
		c.turnOff(peer.Port.(*creditPeer))
		for len(peer.Flows()) > 0 {
			c.disconnect(peer.Flows()[0].Data.(*queuePair))
		}
	}
	c.closing = true
	c.d.showCreditState(false)
}

// remove removes the state.
func (c *credits) remove() {
	c.show()
	c.shown = creditView{changes: c.shown.changes + 1}
	c.showList()
	c.d.creditEpoch = c.end.Receiver.Epoch()
	c.d.credits = nil
}

// peer is the record of a node, or nil.
func (c *credits) peer(node uint32) *creditPeer {
	if p := c.end.Peer(precredit.SenderID(node)); p != nil {
		return p.Port.(*creditPeer)
	}
	return nil
}

// connect has a queue pair use pre-credit if its packets can: RC, to a node, and with room for the
// option, which carries credit.
func (c *credits) connect(x *queuePair) {
	if c.closing || x.credit != nil || x.q.Type() != verbs.RC || x.path.node == 0 || x.path.node > regs.DestCount {
		return
	}
	s, packet := x.q.State(), x.q.Attr().PMTU.Bytes()
	port, ok := c.d.portOf(&x.path)
	if s < verbs.StateRTR || s >= verbs.StateErr || !ok || packet+rocev2.PMTUOverhead+rocev2.StampLen > int(c.d.port(port).mtu) {
		return
	}
	p := c.peer(x.path.node)
	if p == nil {
		p = &creditPeer{c: c, flight: qp.NewFlight()}
		p.Peer = c.end.NewPeer(precredit.SenderID(x.path.node), p, c.sender)
	}
	p.path = x.path
	x.credit = &creditFlow{peer: p}
	x.credit.Data, x.credit.Packet = x, uint32(packet)
	x.q.SetFlight(&p.flight)
	p.Connect(&x.credit.Flow)
	c.look = true
	signal(c.d.m.wake)
}

// disconnect has a queue pair not use pre-credit any more. It ends pre-credit with the node of its last
// queue pair.
func (c *credits) disconnect(x *queuePair) {
	p, f := x.credit.peer, &x.credit.Flow
	if len(p.Flows()) == 1 {
		c.turnOff(p)
	}
	c.posted = slices.DeleteFunc(c.posted, func(w postedWork) bool { return w.x == x })
	x.q.SetFlight(nil)
	x.credit = nil
	c.unblock(p)
	p.Disconnect(f)
}

// update turns pre-credit with a node on or off, as its capabilities and its grants say.
func (c *credits) update(p *creditPeer) {
	caps := regs.DestOf(c.d.in, int(p.ID)-1).CapsWord().Caps()
	on := p.Understands(caps&capCredit != 0, caps&capStamp != 0) && len(p.Flows()) > 0
	switch {
	case on && !p.Enabled():
		p.TurnOn()
	case !on:
		c.turnOff(p)
	}
}

// turnOff ends pre-credit with a node: what is unused at either end goes back.
func (c *credits) turnOff(p *creditPeer) {
	if p.Enabled() {
		c.shown.stale = true
		p.TurnOff()
		signal(c.d.m.wake)
	}
}

// onPosted adds a work request to the flow of its queue pair, at the next step.
func (c *credits) onPosted(x *queuePair, wr *verbs.SendWR) {
	if w, ok := creditwire.Work(wr); ok {
		w.First = x.q.SendQueued() == 1
		c.posted = append(c.posted, postedWork{x, w})
	}
}

// step handles what the driver has done, and what is due.
func (c *credits) step(now qp.Time) {
	c.shown.stale = true
	if c.look {
		c.look = false
		for _, p := range c.end.Peers() {
			c.update(p.Port.(*creditPeer))
		}
	}
	c.end.TakeFlows(int64(now))
	for _, o := range c.posted {
		o.x.credit.peer.Post(int64(now), &o.x.credit.Flow, o.w)
	}
	c.posted = c.posted[:0]
	c.end.Step(int64(now))
}

// onTimeout is called when a timer of a queue pair ran out. ack: it waited for an ACK.
func (c *credits) onTimeout(x *queuePair, ack bool) {
	p := x.credit.peer
	p.Timeout(ack)
	c.unblock(p)
}

// deadline is when step has something to do by itself, or the end of time.
func (c *credits) deadline() qp.Time {
	if at := c.end.Deadline(); at != 0 {
		return qp.Time(at)
	}
	return math.MaxInt64
}
