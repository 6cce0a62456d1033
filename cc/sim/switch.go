// SPDX-License-Identifier: Apache-2.0

package sim

// swtch is a switch's shared buffer. Its ports are in Net.ports.
type swtch struct {
	used     int64 // used bytes of shared
	shared   int64 // buffer without the ports' headroom
	headroom int64 // sum of what ingress queues hold beyond shared
}

// ingress is what a switch holds of one ingress port and queue, for PFC.
type ingress struct {
	bytes    int64 // bytes in shared
	headUsed int64
	headroom int64 // bytes that the link may still bring after a pause
	paused   bool
}

// forward takes a packet that came in through port in to its egress port.
func (n *Net) forward(in int32, id int32) {
	pk := &n.pkts[id]
	pi := int32(pk.path.ports[pk.hop])
	pk.hop++
	if pk.queue == creditClass {
		n.appendCredit(pi, id)
		return
	}
	p := &n.ports[pi]
	if n.idle(p, pk.queue) {
		// An empty queue: nothing to mark, nothing to account for.
		if p.traced {
			p.tracer.departed(0)
		}
		n.transmit(pi, id)
		if p.hasCredits {
			n.rearm(pi)
		}
		return
	}
	pk.in = in
	if why, ok := n.admit(pi, p, pk); !ok {
		n.drop(id, why)
		return
	}
	n.append(pi, id)
	n.kick(pi)
}

// admit accounts for a packet that has to wait, or says why it cannot.
func (n *Net) admit(pi int32, p *port, pk *packet) (Drop, bool) {
	sw, size := &n.switches[p.node-int32(len(n.hosts))], int64(pk.wire)
	if pk.flags&flagUnscheduled != 0 && n.needs.DropUnscheduledBytes > 0 &&
		n.queueOf(pi, pk.queue).bytes+size > n.needs.DropUnscheduledBytes {
		return DropUnscheduled, false
	}
	if n.ingress == nil || pk.queue == controlQueue {
		room := sw.shared - sw.used
		var held int64
		if p.ready&(1<<pk.queue) != 0 {
			held = n.queueOf(pi, pk.queue).bytes
		}
		if size > room || held+size > room*n.alphaQ8>>8 && pk.queue != controlQueue {
			return DropBuffer, false
		}
		sw.used += size
		return 0, true
	}
	in := n.ingressOf(pk)
	limit := (sw.shared - sw.used) * n.pfcAlphaQ8 >> 8
	if in.headUsed == 0 && in.bytes+size <= limit && sw.used+size <= sw.shared {
		in.bytes += size
		sw.used += size
	} else {
		if in.headUsed+size > in.headroom {
			return DropBuffer, false
		}
		in.headUsed += size
		sw.headroom += size
	}
	if !in.paused && (in.headUsed > 0 || in.bytes >= limit) {
		in.paused = true
		n.pause(pk.in, pk.queue, true)
	}
	return 0, true
}

// leave undoes admit and marks the packet if its queue is long.
func (n *Net) leave(p *port, q *queue, pk *packet) {
	sw, size := &n.switches[p.node-int32(len(n.hosts))], int64(pk.wire)
	switch {
	case pk.kind == kindPause:
		return
	case n.ingress == nil || pk.queue == controlQueue:
		sw.used -= size
	default:
		in := n.ingressOf(pk)
		fromHead := min(size, in.headUsed)
		in.headUsed -= fromHead
		sw.headroom -= fromHead
		in.bytes -= size - fromHead
		sw.used -= size - fromHead
		if in.paused && in.headUsed == 0 && (in.bytes == 0 || in.bytes+n.resumeGap <= (sw.shared-sw.used)*n.pfcAlphaQ8>>8) {
			in.paused = false
			n.pause(pk.in, pk.queue, false)
		}
	}
	if pk.kind == kindData && q.bytes > p.noMark && n.needs.ECN != nil && n.mark(&p.ecn, q.bytes) {
		pk.flags |= flagCE
		p.marks++
	}
}

// mark decides by what stays in the queue behind a packet, more than KminBytes.
func (n *Net) mark(e *ECN, held int64) bool {
	if held >= e.KmaxBytes {
		return true
	}
	return n.rand.Float64()*float64(e.KmaxBytes-e.KminBytes) < e.Pmax*float64(held-e.KminBytes)
}

func (n *Net) ingressOf(pk *packet) *ingress {
	return &n.ingress[int(pk.in)*n.cfg.Classes+int(pk.queue-dataQueue)]
}

// pause sends a pause or resume frame for a queue out of port pi, before all else.
func (n *Net) pause(pi int32, queue uint8, stop bool) {
	id := n.newPacket(kindPause, noIndex, pauseWireBytes)
	pk := &n.pkts[id]
	pk.queue, pk.psn = controlQueue, uint32(queue)
	pk.along(&portPath{ports: [maxLinks]uint16{uint16(pi)}, links: 1})
	p := &n.ports[pi]
	if stop {
		p.pauses++
		n.Pauses++
	} else {
		pk.flags |= flagResume
	}
	if n.idle(p, controlQueue) {
		n.transmit(pi, id)
		return
	}
	// Behind pauses that wait already, and before everything else of its queue.
	held, q := p.ready&(1<<controlQueue) != 0, n.queueOf(pi, controlQueue)
	last := noIndex
	if held {
		for k := q.head; k >= 0 && n.pkts[k].kind == kindPause; k = n.pkts[k].next {
			last = k
		}
	}
	n.append(pi, id)
	if held && q.head != id && (last < 0 || n.pkts[last].next != id) {
		n.moveLast(q, last)
	}
	n.kick(pi)
}

// moveLast moves a queue's last packet to behind the packet after, noIndex = first.
func (n *Net) moveLast(q *queue, after int32) {
	id, before := q.tail, q.head
	for n.pkts[before].next != id {
		before = n.pkts[before].next
	}
	n.pkts[before].next = noIndex
	q.tail = before
	if after < 0 {
		n.pkts[id].next = q.head
		q.head = id
	} else {
		n.pkts[id].next = n.pkts[after].next
		n.pkts[after].next = id
	}
}

// paused obeys a pause frame that came for port pi.
func (n *Net) paused(pi int32, pk *packet) {
	p, bit := &n.ports[pi], uint8(1)<<pk.psn
	was := p.paused
	if pk.flags&flagResume == 0 {
		p.paused |= bit
	} else {
		p.paused &^= bit
	}
	switch {
	case was == 0 && p.paused != 0:
		p.pausedAt = n.wheel.now
	case was != 0 && p.paused == 0:
		p.pausedFor += n.wheel.now - p.pausedAt
	}
	if p.host && was&^p.paused != 0 {
		n.hosts[p.node].resume(bit)
	}
	n.kick(pi)
}

// stampINT adds this port's telemetry to a data packet.
func (n *Net) stampINT(p *port, id int32) {
	// The first hop of the path is the host's.
	n.ints[id][n.pkts[id].hop-2] = Hop{QueueBytes: p.queueBytes, TxBytes: p.txBytes, TsNs: n.wheel.now.ns(), RateBps: p.bps}
}
