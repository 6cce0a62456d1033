// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic/qpn"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Pre-credit (S5, cc/precredit), for engines that were opened with Options.PreCredit
// and towards peers whose engine has it too. It is the first user of hooks (hooks.go). This
// file has connections and flows, precredit_tx.go the order of transmission,
// precredit_wire.go what the two ends send to each other.
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

// credits is all that an engine has of pre-credit, as its hooks. It belongs to the engine's thread.
type credits struct {
	recv  *precredit.Receiver
	peers map[netip.Addr]*creditPeer // kept: what an address was granted outlives its queue pairs
	ids   []*creditPeer              // by precredit.Sender

	link   uint64 // bit/s
	bdp    uint32 // of what a receiver plans with
	large  uint8  // Options.LargeDSCP
	poll   precredit.Poll
	timer  int64         // when an account expires or a queue pair has waited for creditMaxWait, 0 = never
	pollAt int64         // when to ask the table whether peers understand, 0 = all is known
	dirty  bool          // the receiver may have grants to send
	ready  []*creditPeer // a flow of theirs may have pre-credit now

	out   rocev2.Datagram
	stamp rocev2.Stamp
	count creditCounters
}

var _ hooks = (*credits)(nil)

type creditCounters struct {
	used, returned, withheld, ramps, grants, returns, ignored uint64
}

// creditPeer is a host with which there is or was pre-credit, in both directions.
type creditPeer struct {
	id         precredit.Sender
	dest       *dest // nil while no queue pair leads there
	advertised bool  // HELLO announced it
	implied    bool  // or it has shown it
	enabled    bool
	pollsLeft  int // to be had still whether it does
	qps        []*QP

	src         precredit.Source
	firstFlight bool  // data is in flight and nothing was received since there was none
	waiting     []*QP // blocked in the first flight
	ready       bool  // in the list of credits
	probe       probe
	ramp        precredit.Ramp
	rtt         int64 // the latest
	round       int64 // when it began
	epoch       uint32
	void        uint32 // of this epoch, as last counted
	asked       int64  // when a loss was last reported
}

// creditFlow is what a queue pair sends until its first ACK.
type creditFlow struct {
	precredit.Flow
	class   precredit.Class
	packet  uint32 // payload of a full one
	posted  uint64
	queued  uint32 // for pre-credit, sent or not
	sent    uint64 // payload since the queue pair had nothing outstanding
	served  uint64 // for its quantum: the same with headers, or of the READ that is responded to
	begun   bool
	asked   bool // for its first ACK
	waiting bool // in the list of creditPeer
}

func newCredits(o *Options, link uint64) *credits {
	if link == 0 {
		link = creditLink
	}
	// A packet takes a frame, whatever it carries. The other half of the frames is
	// for what comes after the first round trip.
	p := precredit.Plan(link, creditRTT, uint32(o.RxFrames/2*1024), 1024, 0)
	p.DelayNs, p.RetryNs = creditDelay, creditRetry
	return &credits{
		recv:  precredit.NewReceiver(p, uint32(time.Now().Unix())),
		peers: map[netip.Addr]*creditPeer{}, link: link, bdp: precredit.BDP(link, creditRTT), large: o.LargeDSCP,
	}
}

// onConnect has a queue pair of RC use pre-credit if its packets can.
func (c *credits) onConnect(e *engine, x *QP, a *qp.Attr) {
	d, to := x.dest, x.path.Current()
	packet := a.PMTU.Bytes()
	// Without room for the stamp a packet cannot carry credit.
	if x.typ != qp.RC || to.Loopback || !qpn.OfEngine(a.DestQPN) || packet+rocev2.PMTUOverhead+rocev2.StampLen > to.MTU {
		return
	}
	p := c.peers[d.addr]
	if p == nil {
		p = &creditPeer{id: precredit.Sender(len(c.ids))}
		p.src.Lead, p.src.Step = precredit.DefaultLead, precredit.DefaultStep
		c.peers[d.addr], c.ids = p, append(c.ids, p)
	}
	x.credit = &creditFlow{packet: uint32(packet)}
	x.credit.Data, x.hooks = x, c
	if len(p.qps) == 0 {
		p.advertised, p.implied = false, false
	}
	p.dest, d.credit = d, p
	p.qps = append(p.qps, x)
	if p.enabled {
		c.recv.NewFlow(int64(e.now), p.id)
		c.dirty = true
	} else {
		p.pollsLeft, c.pollAt = creditPolls, int64(e.now)
	}
}

// pollPeers has the table asked for the peers that are not known to understand pre-credit. An
// engine that was opened a moment ago is announced by HELLO within seconds, and until then
// nothing need be sent there.
func (c *credits) pollPeers(e *engine) {
	c.pollAt = 0
	for _, p := range c.ids {
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
	p.src.Drop(&x.credit.Flow)
	p.unwait(x)
	if len(p.qps) == 1 {
		c.onIteration(e)
		c.turnOff(e, p)
		p.ramp.End()
		p.limit(e)
		p.dest.credit, p.dest = nil, nil
	}
	p.qps = slices.DeleteFunc(p.qps, func(o *QP) bool { return o == x })
	x.credit, x.hooks = nil, nil
	p.resumeWaiting(e)
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
}

// turnOff ends pre-credit with a peer: what is unused at either end goes back.
func (c *credits) turnOff(e *engine, p *creditPeer) {
	if !p.enabled {
		return
	}
	if m, send := p.src.GiveUp(); send {
		c.sendReturn(e, p, m)
	}
	c.recv.Leave(p.id)
	c.flush(e)
	p.enabled, p.firstFlight = false, false
	for _, x := range p.qps {
		p.src.Drop(&x.credit.Flow)
		x.credit.begun = false
	}
	p.resumeWaiting(e)
}

// onPosted adds what a queue pair has just posted to its flow.
func (c *credits) onPosted(e *engine, x *QP, wr *qp.SendWR) {
	p, f, now := x.dest.credit, x.credit, int64(e.now)
	first := x.q.SendQueued() == 1
	if first {
		f.sent, f.served = 0, 0
	}
	if !p.enabled {
		return
	}
	verb := precredit.VerbSend
	switch wr.Op {
	case qp.OpSend, qp.OpSendImm, qp.OpSendInv:
	case qp.OpWrite, qp.OpWriteImm:
		verb = precredit.VerbWrite
	default: // the data of a READ comes from the peer, which cannot plan for it
		return
	}
	n := uint64(len(wr.Data))
	for i := range wr.SGL {
		n += uint64(wr.SGL[i].Len)
	}
	switch {
	case first:
		p.src.Drop(&f.Flow)
		f.begun, f.asked, f.posted, f.queued = true, false, 0, 0
		if p.dest.flight.Used() == 0 {
			p.firstFlight = true
			p.ramp.End()
			p.limit(e)
		}
	case !f.begun:
		return
	}
	f.posted += n
	k := precredit.Features{TotalBytes: f.posted, PostedBytes: f.posted, Verb: verb, RegionBytes: f.posted, BDPBytes: uint64(c.bdp)}
	more := uint32(min(n, uint64(max(c.bdp, f.packet)-min(f.queued, max(c.bdp, f.packet)))))
	f.queued += more
	if class := precredit.Classify(k); class != f.class {
		more += f.Left()
		p.src.Drop(&f.Flow)
		f.class = class
	}
	if first && p.src.Usable(now) == 0 {
		if m, send := p.src.Report(); send {
			c.sendReturn(e, p, m)
		}
	}
	p.src.Push(&f.Flow, f.class, more)
	p.src.Refill(now, f.packet)
	c.markReady(p)
}

// answered is called with an ACK, a NAK or a response of the peer.
func (c *credits) answered(e *engine, p *creditPeer, x *QP, pkt *rocev2.Packet) {
	now := int64(e.now)
	if rtt, _ := p.probe.answered(x, pkt.Opcode().Info().Operation, pkt.BTH().PSN(), e.now); rtt > 0 {
		p.rtt = int64(rtt)
		p.src.SrcFixPrecredit(p.rtt)
	}
	if f := x.credit; f != nil {
		f.begun = false
		p.src.Drop(&f.Flow)
	}
	c.endFirstFlight(e, p)
	if now-p.round >= p.rtt && x.credit != nil {
		p.round = now
		p.src.NextRound(now, x.credit.packet)
	}
	c.markReady(p)
}

// endFirstFlight is called when the path is known. Queue pairs that were blocked do not begin
// with all that the rate allows, but with what was in flight.
func (c *credits) endFirstFlight(e *engine, p *creditPeer) {
	if p.firstFlight && len(p.waiting) > 0 {
		c.count.ramps++
		p.ramp.Begin(uint32(max(p.dest.flight.Bytes(), 1)))
		p.limit(e)
	}
	p.firstFlight = false
	if len(p.waiting) > 0 {
		p.resumeWaiting(e)
	}
}

// onAck has the window of a start grow with what was acknowledged.
func (c *credits) onAck(e *engine, x *QP, before uint64) {
	p := x.dest.credit
	if _, on := p.ramp.Window(); !on {
		return
	}
	n := before - min(p.dest.flight.Bytes(), before)
	base := max(p.src.Base(), creditRTT) // a shorter RTT is the hosts' time more than the path's
	p.ramp.Ack(uint32(n), p.rtt-base, base, c.enough(p, base))
	p.limit(e)
}

// enough is the window at which the policy's rate takes over: what it puts in flight, but
// no more than two bandwidth-delay products.
func (c *credits) enough(p *creditPeer, base int64) uint32 {
	n := 2 * precredit.BDP(c.link, base)
	if rate := p.dest.pacer.Rate(); rate != 0 {
		n = min(n, precredit.BDP(rate, p.rtt))
	}
	return n
}

// limit puts the ramp's window in force.
func (p *creditPeer) limit(e *engine) {
	w, on := p.ramp.Window()
	if !on {
		w = 0
	}
	p.dest.setRampWindow(e, uint64(w))
}

// onTimeout ends the first flight, which could last for ever. A timeout of an ACK voids what
// is left.
func (c *credits) onTimeout(e *engine, x *QP, ack bool) {
	p := x.dest.credit
	if ack && p.enabled {
		if m, send := p.src.GiveUp(); send {
			c.sendReturn(e, p, m)
		}
	}
	c.endFirstFlight(e, p)
}

// onLoss reports the credit that was used, so that the peer finds what was lost.
func (c *credits) onLoss(e *engine, x *QP) {
	p := x.dest.credit
	const often = int64(time.Millisecond)
	if now := int64(e.now); p.enabled && now-p.asked >= often {
		p.asked = now
		if m, send := p.src.Report(); send {
			c.sendReturn(e, p, m)
		}
	}
}

// onFlush drops the flow of a queue pair that has nothing to send any more, since it failed:
// it must not block others.
func (c *credits) onFlush(e *engine, x *QP) {
	p := x.dest.credit
	if x.q.SendQueued() == 0 {
		x.credit.begun = false
		p.src.Drop(&x.credit.Flow)
		c.markReady(p)
	}
	if len(p.waiting) > 0 && p.dest.flight.Used() == 0 {
		p.resumeWaiting(e)
	}
}
