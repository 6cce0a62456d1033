// SPDX-License-Identifier: Apache-2.0

package sim

const (
	prios      = 8
	pausedPrio = prios // list of pacers whose class PFC has stopped
)

// host is a host with its NIC.
type host struct {
	n          *Net
	receiver   Receiver
	clock      Clock
	turnaround tick
	turnHead   int32 // packets that wait for the turnaround
	turnTail   int32
	id         int32
	port       int32
	open       uint16 // lists that are not empty
	lists      [prios + 1]pacerList
	timer      int32 // slot
	turnSlot   int32
	_          [4]uint64 // whole cache lines
}

// pacerList is pacers that may send, the next one first.
type pacerList struct{ head, tail *Pacer }

func (n *Net) makeHosts() {
	n.hosts = hugeSlice[host](n.topo.Hosts)
	for i := range n.hosts {
		h := &n.hosts[i]
		*h = host{n: n, id: int32(i), port: n.routing.links[i][0].port, turnaround: tick(n.cfg.Turnaround) * nanosecond, turnHead: noIndex}
		h.timer = n.wheel.newSlot(evHostTime, h.id)
		h.turnSlot = n.wheel.newSlot(evTurn, h.id)
	}
	for i := range n.hosts {
		n.hosts[i].receiver = n.scheme.NewReceiver(i, &hostOut{&n.hosts[i]})
	}
}

// runnable says whether a pacer could send.
func (h *host) runnable() bool { return h.open&(1<<pausedPrio-1) != 0 }

// pull makes the next data packet, or returns noIndex.
func (h *host) pull() int32 {
	for h.runnable() {
		prio := 0
		for h.open&(1<<prio) == 0 {
			prio++
		}
		p := h.lists[prio].head
		f := p.pick()
		if f == nil {
			p.unlist()
			continue
		}
		if h.n.ports[h.port].paused&(1<<(dataQueue+f.Class)) != 0 {
			p.unlist()
			p.list(pausedPrio)
			continue
		}
		p.unlist()
		return p.emit(f)
	}
	return noIndex
}

// resume takes up the pacers that PFC had stopped.
func (h *host) resume(uint8) {
	for p := h.lists[pausedPrio].head; p != nil; p = h.lists[pausedPrio].head {
		p.unlist()
		p.list(p.prio())
	}
}

// post queues a control packet or ACK at the NIC.
func (h *host) post(id int32) {
	n := h.n
	if n.pkts[id].queue == creditClass {
		n.appendCredit(h.port, id)
		return
	}
	p := &n.ports[h.port]
	if n.idle(p, n.pkts[id].queue) {
		n.transmit(h.port, id)
		n.rearm(h.port)
		return
	}
	n.append(h.port, id)
	n.kick(h.port)
}

// stamp notes when a packet leaves.
func (n *Net) stamp(p *port, pk *packet, id int32) {
	c, now := &n.meta[id], n.hosts[p.node].clock.read(n.wheel.now)
	switch pk.kind {
	case kindData, kindProbe:
		pk.sent, c.t1 = n.wheel.now, now
	case kindAck, kindNak, kindEcho:
		c.t2out = now
	}
}

// receive takes a packet that has arrived.
func (h *host) receive(id int32) {
	n := h.n
	pk := &n.pkts[id]
	switch pk.kind {
	case kindData:
		h.receiveData(id)
		return
	case kindProbe:
		n.meta[id].t2 = h.clock.read(n.wheel.now)
		h.echo(id)
		return
	case kindAck, kindNak:
		n.flows[pk.flow].receiveAck(id)
	case kindEcho:
		h.receiveEcho(id)
	case kindCNP:
		if f := n.flows[pk.flow]; f.pacer != nil {
			f.pacer.ctl.CNP(n.wheel.now.ns(), f.pacer, f)
			f.pacer.Update()
		}
	case kindMessage:
		h.receiveMessage(id)
	}
	n.freePacket(id)
}

// answer sends a packet after the host's turnaround.
func (h *host) answer(id int32) {
	n := h.n
	if h.turnaround == 0 && h.turnHead < 0 {
		h.post(id)
		return
	}
	pk := &n.pkts[id]
	pk.at, pk.next = n.wheel.now+h.turnaround, noIndex
	if h.turnHead < 0 {
		h.turnHead = id
		n.wheel.set(h.turnSlot, pk.at)
	} else {
		pk.at = max(pk.at, n.pkts[h.turnTail].at)
		n.pkts[h.turnTail].next = id
	}
	h.turnTail = id
}

// turned posts the first packet whose turnaround is over.
func (h *host) turned() {
	id := h.turnHead
	h.turnHead = h.n.pkts[id].next
	if h.turnHead >= 0 {
		h.n.wheel.set(h.turnSlot, h.n.pkts[h.turnHead].at)
	}
	h.post(id)
}

func (l *pacerList) empty() bool { return l.head == nil }

// list puts the pacer at the end of a list of its host.
func (p *Pacer) list(prio uint8) {
	l := &p.host.lists[prio]
	p.listed, p.listPrio = true, prio
	p.before, p.after = l.tail, nil
	if l.tail == nil {
		l.head = p
	} else {
		l.tail.after = p
	}
	l.tail = p
	p.host.open |= 1 << prio
}

// unlist takes it off.
func (p *Pacer) unlist() {
	if !p.listed {
		return
	}
	l := &p.host.lists[p.listPrio]
	if p.before == nil {
		l.head = p.after
	} else {
		p.before.after = p.after
	}
	if p.after == nil {
		l.tail = p.before
	} else {
		p.after.before = p.before
	}
	if l.empty() {
		p.host.open &^= 1 << p.listPrio
	}
	p.listed = false
}
