// SPDX-License-Identifier: Apache-2.0

package sim

import "math/bits"

// Queues of a port. Data of class c is in queue dataQueue+c.
const (
	controlQueue = 0
	dataQueue    = 1
	creditClass  = 255
)

// port sends in one direction of a wire. Port i^1 is the other direction. Its
// first cache line is what every packet needs, the second what one does that waits.
type port struct {
	busy       tick // end of the transmission of the last packet
	delay      tick
	lastAt     tick   // arrival of last
	last       int32  // packet that it sent last, noIndex = none yet
	psByte     uint32 // time of a byte, 0 = not a whole number: use bps
	node       int32  // node that has the port
	ready      uint8  // queues that hold something
	paused     uint8  // queues that PFC has stopped
	waiting    bool   // evFree is set
	host       bool   // the node is a host: data comes from its pacers
	noisy      bool   // loss or jitter
	hasCredits bool
	weighted   bool // drr is used
	traced     bool
	txBytes    uint64
	txPackets  uint64

	queueBytes int64
	maxQueue   int64
	noMark     int64 // ecn.KminBytes
	*portConfig
	queues [2]queue // the control queue and the first of data; Net.queues has more
}

// portConfig is what is looked at rarely.
type portConfig struct {
	bps                 uint64
	link                Link
	ecn                 ECN
	tracer              *Tracer
	marks, pauses       uint64
	credits             *creditQueue
	drr                 []drrState
	freeSlot            int32 // evFree, if hasCredits
	pausedAt, pausedFor tick
}

type queue struct {
	head, tail int32
	bytes      int64
}

// creditQueue passes credits at a share of the link, one at a time.
type creditQueue struct {
	queue
	count, limit int
	nextAt       tick
	share        float64
}

type drrState struct{ weight, deficit int64 }

const drrQuantum = 1600 // bytes for a weight of 1: above a usual packet

func (n *Net) queueOf(pi int32, q uint8) *queue {
	if p := &n.ports[pi]; int(q) < len(p.queues) {
		return &p.queues[q]
	}
	return &n.queues[int(pi)*n.numQueues+int(q)]
}

func (p *port) serialise(wire uint16) tick {
	if p.psByte != 0 {
		return tick(wire) * tick(p.psByte)
	}
	return tick(uint64(wire) * 8_000_000_000_000 / p.bps)
}

func (p *port) setRate(bps uint64) {
	p.bps, p.psByte = bps, 0
	if ps := 8_000_000_000_000 / bps; ps*bps == 8_000_000_000_000 && ps < 1<<32 {
		p.psByte = uint32(ps)
	}
}

// idle says whether a packet for queue q could leave at once.
func (n *Net) idle(p *port, q uint8) bool {
	return p.ready == 0 && n.wheel.now >= p.busy && p.paused&(1<<q) == 0
}

// append puts a packet into its queue.
func (n *Net) append(pi int32, id int32) {
	p, pk := &n.ports[pi], &n.pkts[id]
	q := n.queueOf(pi, pk.queue)
	pk.at, pk.next = n.wheel.now, noIndex
	if p.ready&(1<<pk.queue) == 0 {
		p.ready |= 1 << pk.queue
		q.head = id
	} else {
		n.pkts[q.tail].next = id
	}
	q.tail = id
	q.bytes += int64(pk.wire)
	p.queueBytes += int64(pk.wire)
	p.maxQueue = max(p.maxQueue, p.queueBytes)
}

// kick makes the port send if it can, or when it can.
func (n *Net) kick(pi int32) {
	if n.wheel.now < n.ports[pi].busy {
		n.rearm(pi)
	} else {
		n.sendNext(pi)
	}
}

// sendNext starts the next packet of a port that is not busy.
func (n *Net) sendNext(pi int32) {
	p := &n.ports[pi]
	id := noIndex
	if p.hasCredits && p.credits.count > 0 && n.wheel.now >= p.credits.nextAt {
		id = n.popCredit(p, p.credits)
	} else if open := p.ready &^ p.paused; open != 0 {
		id = n.pop(pi, n.choose(p, pi, open))
	} else if p.host {
		id = n.hosts[p.node].pull()
		for id >= 0 && p.paused&(1<<n.pkts[id].queue) != 0 {
			n.append(pi, id) // Sent has moved it to a class that PFC has stopped
			id = n.hosts[p.node].pull()
		}
	}
	if id >= 0 {
		n.transmit(pi, id)
	}
	n.rearm(pi)
}

// rearm sets the time of the next look at the queues, if there is something.
func (n *Net) rearm(pi int32) {
	p := &n.ports[pi]
	at := p.busy
	switch {
	case p.ready&^p.paused != 0, p.host && n.hosts[p.node].runnable():
	case p.hasCredits && p.credits.count > 0:
		at = max(at, p.credits.nextAt)
	default:
		return
	}
	switch {
	case p.hasCredits:
		// What waits for the credits' rate moves up for a packet that need not.
		if !p.waiting || n.wheel.slots[p.freeSlot].at > at {
			n.wheel.set(p.freeSlot, at)
		}
	case !p.waiting:
		n.wheel.put(at, evFree, pi)
	}
	p.waiting = true
}

// choose picks a queue of those open: control first, then by class or weight.
func (n *Net) choose(p *port, pi int32, open uint8) uint8 {
	if open&(1<<controlQueue) != 0 || !p.weighted || open&(open-1) == 0 {
		return uint8(bits.TrailingZeros8(open))
	}
	for {
		for c := range p.drr {
			q := uint8(dataQueue + c)
			if open&(1<<q) == 0 {
				continue
			}
			wire := int64(n.pkts[n.queueOf(pi, q).head].wire)
			if d := &p.drr[c]; d.deficit >= wire {
				d.deficit -= wire
				return q
			}
		}
		for c := range p.drr {
			if open&(1<<(dataQueue+c)) != 0 {
				p.drr[c].deficit += p.drr[c].weight * drrQuantum
			} else {
				p.drr[c].deficit = 0
			}
		}
	}
}

// pop takes the first packet of a queue, and what a switch does as it leaves.
func (n *Net) pop(pi int32, qi uint8) int32 {
	p, q := &n.ports[pi], n.queueOf(pi, qi)
	id := q.head
	pk := &n.pkts[id]
	q.head = pk.next
	if q.head < 0 {
		p.ready &^= 1 << qi
		if p.weighted && qi >= dataQueue {
			p.drr[qi-dataQueue].deficit = 0
		}
	}
	q.bytes -= int64(pk.wire)
	p.queueBytes -= int64(pk.wire)
	if !p.host {
		n.leave(p, q, pk)
	}
	if p.traced {
		p.tracer.departed(n.wheel.now - pk.at)
	}
	return id
}

func (n *Net) popCredit(p *port, c *creditQueue) int32 {
	id := c.head
	c.head = n.pkts[id].next
	c.count--
	wire := n.pkts[id].wire
	c.nextAt = max(c.nextAt, n.wheel.now-tick(float64(p.serialise(wire))/c.share)) + tick(float64(p.serialise(wire))/c.share)
	return id
}

// appendCredit queues a credit packet, or drops it.
func (n *Net) appendCredit(pi int32, id int32) {
	c := n.ports[pi].credits
	if c.count >= c.limit {
		n.drop(id, DropCredit)
		return
	}
	n.pkts[id].next = noIndex
	if c.count == 0 {
		c.head = id
	} else {
		n.pkts[c.tail].next = id
	}
	c.tail = id
	c.count++
	n.kick(pi)
	n.rearm(pi)
}

// transmit puts a packet on the wire.
func (n *Net) transmit(pi int32, id int32) {
	p, pk := &n.ports[pi], &n.pkts[id]
	if p.host {
		n.stamp(p, pk, id)
	} else if pk.kind == kindData && n.needs.INT {
		n.stampINT(p, id)
	}
	p.busy = n.wheel.now + p.serialise(pk.wire)
	p.txBytes += uint64(pk.wire)
	p.txPackets++
	at := p.busy + p.delay
	if p.noisy {
		at = n.disturb(p, pk, at)
	}
	n.send(pi, p, pk, id, at)
}

// send puts a packet at the end of those on the wire. Only the first of them has an
// event. It carries the arrival of the next one, so that nothing else is needed when
// that event is set: packets arrive without a look at the port that sent them.
func (n *Net) send(pi int32, p *port, pk *packet, id int32, at tick) {
	pk.next, pk.onWire = noIndex, true
	if n.onWire(pi, p) {
		last := &n.pkts[p.last]
		last.next, last.at = id, at
	} else {
		n.wheel.put(at, evArrive, id)
	}
	p.last, p.lastAt = id, max(p.lastAt, at)
}

// onWire says whether the packet that the port sent last is still on the wire.
func (n *Net) onWire(pi int32, p *port) bool {
	switch now := n.wheel.now; {
	case p.lastAt != now || p.last < 0:
		return p.lastAt > now
	default:
		// It arrives at this moment, and may have done so.
		pk := &n.pkts[p.last]
		return pk.onWire && pk.from() == pi
	}
}

// disturb adds a link's loss and jitter.
func (n *Net) disturb(p *port, pk *packet, at tick) tick {
	if p.link.Loss > 0 && pk.kind != kindPause && n.rand.Float64() < p.link.Loss {
		pk.flags |= flagLost
	}
	if j := int64(p.link.Jitter); j > 0 {
		at += tick(n.rand.Int64N(j*int64(nanosecond) + 1))
	}
	return max(at, p.lastAt)
}

// arrive takes a packet off its wire.
func (n *Net) arrive(id int32) {
	pk := &n.pkts[id]
	if pk.next >= 0 {
		n.wheel.put(pk.at, evArrive, pk.next)
	}
	pk.onWire = false
	n.PacketHops++
	switch in := pk.from() ^ 1; {
	case pk.flags&flagLost != 0:
		n.drop(id, DropWire)
	case pk.kind == kindPause:
		n.paused(in, pk)
		n.freePacket(id)
	case pk.arrived():
		n.hosts[n.ports[in].node].receive(id)
	default:
		n.forward(in, id)
	}
}
