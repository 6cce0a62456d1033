// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/creditwire"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Pre-credit (S5), for cores with UsePreCredit and towards peers whose
// engine has it too. What leaves on pre-credit, and who waits, is decided by precredit.Endpoint. The hooks
// of the engine (hooks.go) call it. This file has connections and flows, precredit_port.go what the
// endpoint needs of the engine, as to send data on pre-credit, precredit_tx.go who may send without it, traffic
// classes and quanta, precredit_wire.go what the two ends send to each other, precredit_peers.go which peers are
// remembered.
//
// A flow is what a queue pair of RC posts from the moment it has nothing outstanding
// until its first ACK: the first flight. In that time its packets leave on pre-credit,
// ahead of the pacer. Where none is left, a large flow waits for the first ACK of any packet
// to this destination; a small one goes on as the pacer lets it, as without pre-credit.

// What a receiver plans with. The base RTT of an engine is shorter; packets live long where
// a busy machine leaves them in a ring.
const (
	creditRTT        = int64(100 * time.Microsecond)
	creditDelay      = int64(100 * time.Millisecond)
	creditRetry      = int64(5 * time.Millisecond)
	creditMaxWait    = int64(10 * time.Millisecond)
	creditPollPeriod = int64(20 * time.Millisecond) // so often, for 10 s
	creditPolls      = 500
	creditLink       = uint64(10e9) // of an interface whose rate is not known
)

var _ hooks = (*credits)(nil)

// PreCredit has what pre-credit needs.
type PreCredit struct {
	LinkRate uint64 // bit/s of the interface, 0 = unknown
	// Frames is how many received frames the ports buffer. Half of them are granted to peers, of 1 KB each.
	Frames int
	// LargeDSCP is for large flows' data, 1 to 63: switches that have two queues can serve all other packets first. 0:
	// it is that of the queue pair.
	LargeDSCP uint8
	// FirstEpoch is the number of the first account (FirstEpoch). The core writes that of the next one to Epoch, unless
	// Epoch is nil.
	FirstEpoch uint32
	Epoch      *atomic.Uint32
	// Hold is how long first data waits for a grant. 0: CreditHold.
	Hold time.Duration
	// Receiver and Sender are the parameters. Receiver nil: both are those of LinkRate and Frames.
	Receiver *precredit.Params
	Sender   precredit.SenderParams
}

// UsePreCredit turns pre-credit on. Packets to rocev2.ControlQPN come to Frame.
func (e *Core) UsePreCredit(p PreCredit) *precredit.Endpoint {
	c := newCredits(e, p)
	e.hooks = c
	for x := range e.qps.All() {
		if a := x.q.Attr(); x.dest != nil && a.State != verbs.StateErr {
			c.onConnect(x, &a)
		}
	}
	return c.end
}

// EndPreCredit turns pre-credit off: what is unused at either end goes back. Frames of the messages are at the ports.
func (e *Core) EndPreCredit() {
	c, ok := e.hooks.(*credits)
	if !ok {
		return
	}
	for _, p := range c.end.Peers() {
		c.turnOff(p.Port.(*creditPeer))
		for len(p.Flows()) > 0 {
			c.onDisconnect(p.Flows()[0].Data.(*QP))
		}
	}
	e.hooks = nil
}

func newCredits(e *Core, o PreCredit) *credits {
	link, hold := o.LinkRate, int64(o.Hold)
	if link == 0 {
		link = creditLink
	}
	if hold == 0 {
		hold = int64(CreditHold)
	}
	// A packet takes a frame, whatever it carries. The other half of the frames is
	// for what comes after the first round trip.
	p := precredit.Plan(link, creditRTT, uint32(o.Frames/2*1024), 1024, 0)
	p.DelayNs, p.RetryNs = creditDelay, creditRetry
	sender := precredit.SenderParams{
		LinkBps: link, RTTNs: creditRTT, BDPBytes: precredit.BDP(link, creditRTT), MaxWaitNs: creditMaxWait,
		SmallBias: precredit.DefaultSmallBias, AgingStep: precredit.DefaultAgingStep,
	}
	if o.Receiver != nil {
		p, sender = *o.Receiver, o.Sender
	}
	return &credits{
		e: e, end: precredit.NewEndpoint(p, o.FirstEpoch), epochs: o.Epoch,
		peers: map[netip.Addr]*creditPeer{}, large: o.LargeDSCP, connects: connects{hold: hold}, sender: sender,
	}
}

// FirstEpoch returns the number of a core's first account. A clock that was set would repeat numbers,
// and peers would ignore the grants or take them for those of an earlier account (S8). So a core goes on
// where the one before it ended: next is the number that it has left, in memory that outlives it. nil or 0: this is
// the first core of an attachment. It begins with the Unix time, in seconds:
// its peers get a new token from it, and forget their accounts (onRenewed).
func FirstEpoch(next *atomic.Uint32, now time.Time) uint32 {
	if next != nil {
		if n := next.Load(); n != 0 {
			return n
		}
	}
	return uint32(now.Unix())
}

// keepEpoch stores the number of the next account, before a grant has one.
func (c *credits) keepEpoch() {
	if next := c.end.Receiver.Epoch(); c.epochs != nil && c.epochs.Load() != next {
		c.epochs.Store(next)
	}
}

// onRenewed forgets what a peer has granted: it was attached again, and its accounts have new numbers.
// onPeer turns pre-credit on again.
func (c *credits) onRenewed(d *dest) {
	if p := d.credit; p != nil {
		c.turnOff(p)
		p.Renew()
	}
}

// onConnect has a queue pair of RC use pre-credit if its packets can.
func (c *credits) onConnect(x *QP, a *verbs.Attr) {
	d, to := x.dest, x.Path.Current()
	packet := a.PMTU.Bytes()
	// Without room for the stamp a packet cannot carry credit.
	if x.typ != verbs.RC || to.Loopback || !d.mayCredit(a.DestQPN) || packet+rocev2.PMTUOverhead+rocev2.StampLen+x.sealRoom() > to.MTU {
		return
	}
	p := c.peerOf(d)
	if p == nil {
		return
	}
	x.credit = &creditFlow{}
	x.credit.Data, x.credit.Packet, x.hooked = x, uint32(packet), true
	p.dest, p.last, d.credit = d, x.Address, p
	p.lastSrc = x.src
	p.Connect(&x.credit.Flow)
	if now := c.now(); p.Enabled() {
		c.end.TakeFlows(now)
	} else if c.knownAtConnect(p); !p.Enabled() && d.entry == nil {
		p.pollsLeft, c.pollAt = creditPolls, now
	}
	if d.entry == nil {
		c.awaitGrant(x)
	}
}

// pollPeers has the table asked for the peers that are not known to understand pre-credit. An
// engine that was opened a moment ago is announced by HELLO within seconds, and until then
// nothing need be sent there.
func (c *credits) pollPeers() {
	c.pollAt = 0
	for _, peer := range c.end.Peers() {
		if p := peer.Port.(*creditPeer); p.dest != nil && !p.Enabled() && p.pollsLeft > 0 {
			p.pollsLeft--
			c.e.dests.queueForSync(p.dest)
			c.pollAt = c.now() + creditPollPeriod
		}
	}
}

// onDisconnect ends pre-credit with the peer of the last queue pair there.
func (c *credits) onDisconnect(x *QP) {
	p, f := x.dest.credit, &x.credit.Flow
	p.End(f)
	x.credit.held = false // the end of the wait must not enqueue it
	last := len(p.Flows()) == 1
	if last {
		c.onIteration()
		c.turnOff(p)
	}
	p.Disconnect(f)
	if last {
		if p.dest.credit = nil; p.dest.entry == nil {
			c.keepIdle(c.now(), p)
		}
		p.dest = nil
	}
	x.credit, x.hooked = nil, false
}

// onPeer applies what HELLO announced of a peer. Pre-credit is on only while packets to the destination are
// stamped: SendData relies on it.
func (c *credits) onPeer(d *dest, reply *DestSync) {
	p := d.credit
	if p == nil {
		return
	}
	switch on := p.Understands(reply.Known && reply.Credit, d.stamps); {
	case on == p.Enabled():
	case on:
		c.turnOn(p)
	default:
		c.turnOff(p)
	}
}

// onPeerGrant is called with a grant of a peer that HELLO has not announced yet. The grant
// implies that the peer understands. HELLO may take seconds, where an engine was opened a
// moment ago.
func (c *credits) onPeerGrant(p *creditPeer) {
	if p.Implied = p.dest.stamps; p.Implied {
		c.turnOn(p)
	}
}

func (c *credits) turnOn(p *creditPeer) {
	p.TurnOn()
	c.end.TakeFlows(c.now())
	c.takeEarly(p)
}

// turnOff ends pre-credit with a peer: what is unused at either end goes back.
func (c *credits) turnOff(p *creditPeer) {
	if p.Enabled() {
		c.endHold(p)
		p.TurnOff()
		c.flush()
	}
}

// onPosted adds what a queue pair has just posted to its flow.
func (c *credits) onPosted(x *QP, wr *verbs.SendWR) {
	p, f := x.dest.credit, x.credit
	first := x.q.SendQueued() == 1
	if first {
		f.sent, f.served = 0, 0
	}
	if !p.Enabled() {
		return
	}
	if w, ok := creditwire.Work(wr); ok {
		w.First = first
		p.Post(c.now(), &f.Flow, w)
	}
}

func (c *credits) onTimeout(x *QP, ack bool, before uint64) {
	p := x.dest.credit
	p.beforeTimeout = before
	p.Timeout(ack)
	p.beforeTimeout = 0
}
