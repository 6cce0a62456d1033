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
// and towards peers whose engine has it too. This file is the sender's half for its
// queue pairs, precredit_tx.go what leaves when, precredit_wire.go what the two ends tell each
// other.
//
// A flow is what a queue pair of RC posts from the moment it has nothing outstanding
// until its first ACK. In that time its packets leave on pre-credit, past the pacer.
// Where there is none left, a large flow waits for the first ACK of anybody's packet
// to this destination; a small one goes on as the pacer lets it, as without.

// What a receiver plans with. A round trip of an engine on an idle path takes less;
// its packets live long where a busy machine leaves them in a ring.
const (
	creditRTT      = int64(100 * time.Microsecond)
	creditDelay    = int64(100 * time.Millisecond)
	creditRetry    = int64(5 * time.Millisecond)
	creditPatience = int64(10 * time.Millisecond)
	creditLook     = int64(20 * time.Millisecond) // so often, for 10 s
	creditLooks    = 500
	creditLink     = uint64(10e9) // of an interface that does not say its rate
)

// credits is all that an engine has of pre-credit, as its hooks. It belongs to the engine's thread.
type credits struct {
	recv  *precredit.Receiver
	peers map[netip.Addr]*creditPeer // kept: what an address was granted outlives its queue pairs
	ids   []*creditPeer              // by precredit.Sender

	link  uint64 // bit/s
	bdp   uint32 // of what a receiver plans with
	large uint8  // Options.LargeDSCP
	poll  precredit.Poll
	timer int64         // when an account expires or somebody has waited enough, 0 = never
	look  int64         // when to see whether peers understand, 0 = all is known
	dirty bool          // the receiver may have grants to send
	eager []*creditPeer // a flow of theirs may have pre-credit now

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
	id    precredit.Sender
	dest  *dest // nil while no queue pair leads there
	told  bool  // HELLO says that it understands
	spoke bool  // or it has shown it
	on    bool
	looks int // to be had still whether it does
	qps   []*QP

	src     precredit.Source
	blind   bool  // data is under way and nothing was heard since there was none
	waiting []*QP // withheld until something is heard
	eager   bool  // in the list of credits
	probe   probe
	ramp    precredit.Ramp
	rtt     int64 // the latest
	round   int64 // when it began
	epoch   uint32
	void    uint32 // of this epoch, as last counted
	asked   int64  // when a loss was last reported
}

// creditFlow is what a queue pair sends until its first ACK.
type creditFlow struct {
	precredit.Flow
	class   precredit.Class
	packet  uint32 // payload of a full one
	posted  uint64
	queued  uint32 // for pre-credit, sent or not
	sent    uint64 // payload since the queue pair had nothing outstanding
	served  uint64 // for its turns: the same with headers, or of the READ that is answered
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
	// Without room for the stamp a packet cannot say that it is paid.
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
		p.told, p.spoke = false, false
	}
	p.dest, d.credit = d, p
	p.qps = append(p.qps, x)
	if p.on {
		c.recv.NewFlow(int64(e.now), p.id)
		c.dirty = true
	} else {
		p.looks, c.look = creditLooks, int64(e.now)
	}
}

// learn has the table asked for the peers of which it is not known that they
// understand. An engine that was opened a moment ago says so by HELLO within seconds,
// and until then nothing need be sent there.
func (c *credits) learn(e *engine) {
	c.look = 0
	for _, p := range c.ids {
		if p.dest != nil && !p.on && p.looks > 0 {
			p.looks--
			e.list(p.dest)
			c.look = int64(e.now) + creditLook
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
	p.wake(e)
	c.rouse(p)
}

// onPeer takes what HELLO says of a peer.
func (c *credits) onPeer(e *engine, d *dest, reply *DestSync) {
	p, told := d.credit, reply.Known && reply.Credit
	if p == nil {
		return
	}
	if p.told && !told { // its engine has gone since
		p.spoke = false
	}
	p.told = told
	switch on := p.dest.stamps && (told || p.spoke); {
	case on == p.on:
	case on:
		c.turnOn(e, p)
	default:
		c.turnOff(e, p)
	}
}

// speaks takes a grant of a peer of which HELLO has not told yet that it understands: only
// who does sends one. HELLO may take seconds, where an engine was opened a moment ago.
func (c *credits) speaks(e *engine, p *creditPeer) {
	if p.spoke = p.dest.stamps; p.spoke {
		c.turnOn(e, p)
	}
}

func (c *credits) turnOn(e *engine, p *creditPeer) {
	p.on = true
	c.recv.NewFlow(int64(e.now), p.id)
	c.dirty = true
}

// turnOff ends pre-credit with a peer: what is unused at either end goes back.
func (c *credits) turnOff(e *engine, p *creditPeer) {
	if !p.on {
		return
	}
	if m, send := p.src.GiveUp(); send {
		c.sendReturn(e, p, m)
	}
	c.recv.Leave(p.id)
	c.flush(e)
	p.on, p.blind = false, false
	for _, x := range p.qps {
		p.src.Drop(&x.credit.Flow)
		x.credit.begun = false
	}
	p.wake(e)
}

// onPosted asks for pre-credit for what a queue pair has just posted.
func (c *credits) onPosted(e *engine, x *QP, wr *qp.SendWR) {
	p, f, now := x.dest.credit, x.credit, int64(e.now)
	first := x.q.SendQueued() == 1
	if first {
		f.sent, f.served = 0, 0
	}
	if !p.on {
		return
	}
	verb := precredit.VerbSend
	switch wr.Op {
	case qp.OpSend, qp.OpSendImm, qp.OpSendInv:
	case qp.OpWrite, qp.OpWriteImm:
		verb = precredit.VerbWrite
	default: // the data of a READ comes from the peer, who knows nothing of it before
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
			p.blind = true
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
	c.rouse(p)
}

// answered is called for an answer of the peer, whatever it says.
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
	c.heard(e, p)
	if now-p.round >= p.rtt && x.credit != nil {
		p.round = now
		p.src.NextRound(now, x.credit.packet)
	}
	c.rouse(p)
}

// heard ends the time in which nothing is known of the way. Who had to wait does not
// begin with all that its rate allows, but with what was under way.
func (c *credits) heard(e *engine, p *creditPeer) {
	if p.blind && len(p.waiting) > 0 {
		c.count.ramps++
		p.ramp.Begin(uint32(max(p.dest.flight.Bytes(), 1)))
		p.limit(e)
	}
	p.blind = false
	if len(p.waiting) > 0 {
		p.wake(e)
	}
}

// onAck has the window of a start grow with what was acknowledged.
func (c *credits) onAck(e *engine, x *QP, before uint64) {
	p := x.dest.credit
	if _, on := p.ramp.Window(); !on {
		return
	}
	n := before - min(p.dest.flight.Bytes(), before)
	base := max(p.src.Base(), creditRTT) // less is the hosts' own time more than the way's
	p.ramp.Ack(uint32(n), p.rtt-base, base, c.enough(p, base))
	p.limit(e)
}

// enough is the window at which the policy's rate takes over: what it puts under way, but
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

// onTimeout ends the wait for an answer, which could last for ever. A timeout of an ACK
// voids what is left.
func (c *credits) onTimeout(e *engine, x *QP, ack bool) {
	p := x.dest.credit
	if ack && p.on {
		if m, send := p.src.GiveUp(); send {
			c.sendReturn(e, p, m)
		}
	}
	c.heard(e, p)
}

// onLoss asks the peer what of its credit has arrived.
func (c *credits) onLoss(e *engine, x *QP) {
	p := x.dest.credit
	const often = int64(time.Millisecond)
	if now := int64(e.now); p.on && now-p.asked >= often {
		p.asked = now
		if m, send := p.src.Report(); send {
			c.sendReturn(e, p, m)
		}
	}
}

// onFlush drops the flow of a queue pair that has nothing to send any more, since it failed:
// it must not stand before others.
func (c *credits) onFlush(e *engine, x *QP) {
	p := x.dest.credit
	if x.q.SendQueued() == 0 {
		x.credit.begun = false
		p.src.Drop(&x.credit.Flow)
		c.rouse(p)
	}
	if len(p.waiting) > 0 && p.dest.flight.Used() == 0 {
		p.wake(e)
	}
}
