// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/creditwire"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/qpn"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Pre-credit (S5, cc/precredit), for engines that were opened with Options.PreCredit
// and towards peers whose engine has it too. It is the first user of hooks (hooks.go). This
// file has connections and flows, precredit_tx.go the order of transmission,
// precredit_wire.go what the two ends send to each other, precredit_peers.go which peers are remembered.
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

func newCredits(o *Options, link uint64) *credits {
	if link == 0 {
		link = creditLink
	}
	// A packet takes a frame, whatever it carries. The other half of the frames is
	// for what comes after the first round trip.
	p := precredit.Plan(link, creditRTT, uint32(o.RxFrames/2*1024), 1024, 0)
	p.DelayNs, p.RetryNs = creditDelay, creditRetry
	return &credits{
		recv: precredit.NewReceiver(p, firstEpoch(o.CreditEpoch, time.Now())), epochs: o.CreditEpoch,
		peers: map[netip.Addr]*creditPeer{}, ids: map[precredit.SenderID]*creditPeer{}, link: link, bdp: precredit.BDP(link, creditRTT), large: o.LargeDSCP,
	}
}

// firstEpoch returns the number of an engine's first account. A clock that was set would repeat numbers,
// and peers would ignore the grants or take them for those of an earlier account (S8). So an engine goes on
// where the one before it ended. The first engine of an attachment begins with the Unix time, in seconds:
// its peers get a new token from it, and forget their accounts (onRenewed).
func firstEpoch(next *atomic.Uint32, now time.Time) uint32 {
	if next != nil {
		if n := next.Load(); n != 0 {
			return n
		}
	}
	return uint32(now.Unix())
}

// keepEpoch stores the number of the next account, before a grant has one.
func (c *credits) keepEpoch() {
	if next := c.recv.Epoch(); c.epochs != nil && c.epochs.Load() != next {
		c.epochs.Store(next)
	}
}

// onRenewed forgets what a peer has granted: it was attached again, and its accounts have new numbers.
// onPeer turns pre-credit on again.
func (c *credits) onRenewed(e *engine, d *dest) {
	p := d.credit
	if p == nil {
		return
	}
	c.turnOff(e, p)
	c.keepStats(p)
	p.src, p.epoch, p.expired = c.newSender(), 0, 0
}

// newSender makes the sending half towards one peer.
func (c *credits) newSender() *precredit.Sender {
	return precredit.NewSender(precredit.SenderParams{
		LinkBps: c.link, RTTNs: creditRTT, BDPBytes: c.bdp, MaxWaitNs: creditMaxWait,
		SmallBias: precredit.DefaultSmallBias, AgingStep: precredit.DefaultAgingStep,
	})
}

// onConnect has a queue pair of RC use pre-credit if its packets can.
func (c *credits) onConnect(e *engine, x *QP, a *verbs.Attr) {
	d, to := x.dest, x.path.Current()
	packet := a.PMTU.Bytes()
	// Without room for the stamp a packet cannot carry credit.
	if x.typ != verbs.RC || to.Loopback || !qpn.OfEngine(a.DestQPN) || packet+rocev2.PMTUOverhead+rocev2.StampLen+x.sealRoom() > to.MTU {
		return
	}
	p := c.peers[d.addr]
	if p == nil {
		p = c.remember(d.addr)
	}
	x.credit = &creditFlow{}
	x.credit.Data, x.credit.Packet, x.hooks = x, uint32(packet), c
	if len(p.qps) == 0 {
		p.advertised, p.implied = false, false
	}
	p.dest, d.credit = d, p
	p.qps = append(p.qps, x)
	if p.enabled {
		c.recv.NewFlow(int64(e.now), p.id)
		c.dirty = true
	} else if c.knownAtConnect(e, p); !p.enabled {
		p.pollsLeft, c.pollAt = creditPolls, int64(e.now)
	}
	c.awaitGrant(e, x)
}

// pollPeers has the table asked for the peers that are not known to understand pre-credit. An
// engine that was opened a moment ago is announced by HELLO within seconds, and until then
// nothing need be sent there.
func (c *credits) pollPeers(e *engine) {
	c.pollAt = 0
	for _, p := range c.all {
		if p.dest != nil && !p.enabled && p.pollsLeft > 0 {
			p.pollsLeft--
			e.queueForSync(p.dest)
			c.pollAt = int64(e.now) + creditPollPeriod
		}
	}
}

// onDisconnect ends pre-credit with the peer of the last queue pair there.
func (c *credits) onDisconnect(e *engine, x *QP) {
	p := x.dest.credit
	p.src.End(&x.credit.Flow)
	if len(p.qps) == 1 {
		c.onIteration(e)
		c.turnOff(e, p)
		p.dest.credit, p.dest = nil, nil
		c.keepIdle(int64(e.now), p)
	}
	p.qps = slices.DeleteFunc(p.qps, func(o *QP) bool { return o == x })
	x.credit, x.hooks = nil, nil
	if p.dest != nil {
		p.src.Idle() // what is in flight may have been of this queue pair alone
		p.apply(e)
	}
	c.markReady(p)
}

// onPeer applies what HELLO announced of a peer.
func (c *credits) onPeer(e *engine, d *dest, reply *DestSync) {
	p, told := d.credit, reply.Known && reply.Credit
	if p == nil {
		return
	}
	if p.advertised && !told { // its engine has gone since
		p.implied = false
	}
	p.advertised = told
	switch on := p.dest.stamps && (told || p.implied); {
	case on == p.enabled:
	case on:
		c.turnOn(e, p)
	default:
		c.turnOff(e, p)
	}
}

// onPeerGrant is called with a grant of a peer that HELLO has not announced yet. The grant
// implies that the peer understands. HELLO may take seconds, where an engine was opened a
// moment ago.
func (c *credits) onPeerGrant(e *engine, p *creditPeer) {
	if p.implied = p.dest.stamps; p.implied {
		c.turnOn(e, p)
	}
}

func (c *credits) turnOn(e *engine, p *creditPeer) {
	p.enabled = true
	c.recv.NewFlow(int64(e.now), p.id)
	c.dirty = true
	c.takeEarly(e, p)
}

// turnOff ends pre-credit with a peer: what is unused at either end goes back.
func (c *credits) turnOff(e *engine, p *creditPeer) {
	if !p.enabled {
		return
	}
	if m, send := p.src.Stop(); send {
		c.sendReturn(e, p, m)
	}
	for _, x := range p.qps {
		p.src.End(&x.credit.Flow)
	}
	c.recv.Leave(p.id)
	c.flush(e)
	p.enabled = false
	c.endHold(e, p)
	p.apply(e)
}

// apply puts the sender's window in force, and enqueues the queue pairs that need not wait any
// more. It is called after each event of the sender.
func (p *creditPeer) apply(e *engine) {
	w, _ := p.src.Window()
	p.dest.setRampWindow(e, uint64(w))
	for _, f := range p.src.Released() {
		e.enqueue(&f.Data.(*QP).egress)
	}
}

// onPosted adds what a queue pair has just posted to its flow.
func (c *credits) onPosted(e *engine, x *QP, wr *verbs.SendWR) {
	p, f := x.dest.credit, x.credit
	first := x.q.SendQueued() == 1
	if first {
		f.sent, f.served = 0, 0
	}
	if !p.enabled {
		return
	}
	w, ok := creditwire.Work(wr)
	if !ok {
		return
	}
	w.First, w.Idle = first, p.dest.flight.Used() == 0
	m, send := p.src.Post(int64(e.now), &f.Flow, w)
	if send {
		c.sendReturn(e, p, m)
	}
	p.apply(e)
	c.markReady(p)
}

// onTimeout ends the first flight, which could last for ever. A timeout of an ACK voids what
// is left.
func (c *credits) onTimeout(e *engine, x *QP, ack bool) {
	p := x.dest.credit
	if !p.enabled {
		return
	}
	if m, send := p.src.Timeout(ack, p.dest.flight.Bytes()); send {
		c.sendReturn(e, p, m)
	}
	p.apply(e)
}
