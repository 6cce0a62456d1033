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

// Pre-credit (S5, cc/precredit) with the nodes that understand it, while control.enable of block
// precredit is set; else dataPath.credits is nil. It does what the engine does
// (rocev2/nic/precredit.go). This file has nodes, connections and flows, precredit_send.go the
// order of transmission, precredit_receive.go what arrives, and precredit_regs.go the registers.
//
// A flow is what a queue pair of RC posts from the moment that it has nothing outstanding until
// its first ACK. Its packets leave on pre-credit, ahead of the pacer. Writes of the driver have no
// time: step handles them when the next frame is asked for.

// capCredit is SR_CAP_CREDIT of bpf/lib/abi.h.
const capCredit = 4

// credits is the state of pre-credit.
type credits struct {
	d      *dataPath
	recv   *precredit.Receiver
	sender precredit.SenderParams

	peers map[uint32]*creditPeer // peers by node number, which is the precredit.SenderID; kept
	all   []*creditPeer          // peers in the order in which they were connected

	posted  []postedWork
	flows   []*creditPeer  // peers whose new flow the receiver has not seen
	ready   []*creditPeer  // a flow of theirs may have pre-credit now
	losses  []*creditPeer  // packets to them were sent again
	returns []creditReturn // credit returns to be sent
	timer   int64          // next deadline of a sender, 0 = never
	look    bool           // capabilities of nodes may have changed
	waits   bool           // queue pairs may wait in a first flight
	closing bool           // enable was cleared, and the last messages have not left

	count creditCounts
	shown creditView
	out   rocev2.Datagram
}

type creditCounts struct{ used, returned, grants, returns, ignored uint64 }

// creditPeer is a node with which there is or was pre-credit, in both directions.
type creditPeer struct {
	node    uint32
	path    address // address of the queue pair that was connected last
	pairs   []*queuePair
	flight  qp.Flight
	src     *precredit.Sender
	enabled bool

	// Signs that the node understands: its capability, or a grant from it.
	advertised, implied bool

	ready, loss bool   // the peer is in a list of credits
	ahead       uint64 // bytes that have left ahead of the rate since the pacer was idle
	epoch, void uint32 // bytes given up of this epoch, as last counted
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
			d.credits.end()
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
	d.credits = &credits{d: d, recv: precredit.NewReceiver(r, epoch), sender: s, peers: map[uint32]*creditPeer{}, look: true}
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
// are asked for; then end is called.
func (c *credits) close() {
	for _, p := range c.all {
		c.turnOff(p)
		for len(p.pairs) > 0 {
			c.remove(p.pairs[0])
		}
	}
	c.closing = true
	c.d.showCreditState(false)
}

// end removes the state.
func (c *credits) end() {
	c.show()
	c.shown = creditView{changes: c.shown.changes + 1}
	c.showList()
	c.d.creditEpoch = c.recv.Epoch()
	c.d.credits = nil
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
	p := c.peers[x.path.node]
	if p == nil {
		p = &creditPeer{node: x.path.node, src: precredit.NewSender(c.sender), flight: qp.NewFlight()}
		c.peers[p.node] = p
		c.all = append(c.all, p)
	}
	if len(p.pairs) == 0 {
		p.advertised, p.implied = false, false
	}
	p.path, p.pairs = x.path, append(p.pairs, x)
	x.credit = &creditFlow{peer: p}
	x.credit.Data, x.credit.Packet = x, uint32(packet)
	x.q.SetFlight(&p.flight)
	if p.enabled {
		c.newFlow(p)
	}
	c.look = true
	signal(c.d.m.wake)
}

// disconnect ends pre-credit with the node of its last queue pair.
func (c *credits) disconnect(x *queuePair) {
	p := x.credit.peer
	if len(p.pairs) == 1 {
		c.turnOff(p)
	}
	c.remove(x)
	p.src.Idle() // what is in flight may have been of this queue pair alone
	c.apply(p)
	c.markReady(p)
}

// remove has a queue pair not use pre-credit any more.
func (c *credits) remove(x *queuePair) {
	p := x.credit.peer
	p.src.End(&x.credit.Flow)
	p.pairs = slices.DeleteFunc(p.pairs, func(o *queuePair) bool { return o == x })
	c.posted = slices.DeleteFunc(c.posted, func(w postedWork) bool { return w.x == x })
	x.q.SetFlight(nil)
	x.credit = nil
	c.unblock(p)
}

// update turns pre-credit with a node on or off, as its capabilities and its grants say.
func (c *credits) update(p *creditPeer) {
	caps := regs.DestOf(c.d.in, int(p.node)-1).CapsWord().Caps()
	was := p.advertised
	p.advertised = caps&capCredit != 0
	p.implied = p.implied && (p.advertised || !was)
	on := caps&capStamp != 0 && (p.advertised || p.implied) && len(p.pairs) > 0
	switch {
	case on && !p.enabled:
		p.enabled = true
		c.newFlow(p)
	case !on && p.enabled:
		c.turnOff(p)
	}
}

// turnOff ends pre-credit with a node: what is unused at either end goes back.
func (c *credits) turnOff(p *creditPeer) {
	if !p.enabled {
		return
	}
	c.shown.stale = true
	if m, send := p.src.Stop(); send {
		c.sendReturn(p, m)
	}
	for _, x := range p.pairs {
		p.src.End(&x.credit.Flow)
	}
	c.recv.Leave(precredit.SenderID(p.node))
	p.enabled = false
	c.apply(p)
	signal(c.d.m.wake)
}

func (c *credits) newFlow(p *creditPeer) { c.flows = append(c.flows, p) }

// apply puts the sender's window in force, and enqueues the queue pairs that need not wait any
// more. It is called after each event of the sender.
func (c *credits) apply(p *creditPeer) {
	w, _ := p.src.Window()
	p.flight.SetWindow(uint64(w))
	for _, f := range p.src.Released() {
		c.d.enqueue(f.Data.(*queuePair))
	}
	c.unblock(p)
}

// unblock enqueues the next queue pair that waits for room in the window or the in-flight limit
// of a node.
func (c *credits) unblock(p *creditPeer) {
	if q := p.flight.ServeNext(); q != nil {
		if x := c.d.qps[q.QPN()]; x != nil {
			c.d.enqueue(x)
		}
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
		for _, p := range c.all {
			c.update(p)
		}
	}
	for _, p := range c.flows {
		if p.enabled {
			c.recv.NewFlow(int64(now), precredit.SenderID(p.node))
		}
	}
	c.flows = c.flows[:0]
	c.takePosted(now)
	if c.timer != 0 && int64(now) >= c.timer {
		c.expireSenders(now)
	}
	if c.waits {
		c.endWaits()
	}
	c.reportLosses(now)
	if at := c.recv.Deadline(); at != 0 && int64(now) >= at {
		c.recv.Expire(int64(now))
	}
}

// takePosted tells senders what was posted.
func (c *credits) takePosted(now qp.Time) {
	for _, o := range c.posted {
		p := o.x.credit.peer
		if !p.enabled {
			continue
		}
		o.w.Idle = p.flight.Used() == 0
		if m, send := p.src.Post(int64(now), &o.x.credit.Flow, o.w); send {
			c.sendReturn(p, m)
		}
		c.apply(p)
		c.markReady(p)
	}
	c.posted = c.posted[:0]
}

func (c *credits) expireSenders(now qp.Time) {
	c.timer = 0
	for _, p := range c.all {
		if m, send := p.src.Expire(int64(now), p.flight.Bytes()); send {
			c.sendReturn(p, m)
		}
		c.apply(p)
		c.watch(p)
	}
}

// watch has step look when the sender's deadline has come.
func (c *credits) watch(p *creditPeer) {
	if at := p.src.Deadline(); at != 0 && (c.timer == 0 || at < c.timer) {
		c.timer = at
	}
}

// endWaits lets queue pairs send that wait in a first flight although nothing is in flight, as
// after a queue pair has failed.
func (c *credits) endWaits() {
	c.waits = false
	for _, p := range c.all {
		switch {
		case !p.src.Blocked():
		case p.flight.Used() > 0:
			c.waits = true
		default:
			p.src.Idle()
			c.apply(p)
		}
	}
}

// onTimeout ends the first flight, which could last for ever. A timeout of an ACK voids what is
// left.
func (c *credits) onTimeout(x *queuePair, ack bool) {
	p := x.credit.peer
	if p.enabled {
		if m, send := p.src.Timeout(ack, p.flight.Bytes()); send {
			c.sendReturn(p, m)
		}
	}
	c.apply(p)
}

// deadline is when step has something to do by itself, or the end of time.
func (c *credits) deadline() qp.Time {
	first := int64(math.MaxInt64)
	for _, at := range [...]int64{c.timer, c.recv.Deadline()} {
		if at != 0 {
			first = min(first, at)
		}
	}
	return qp.Time(first)
}
