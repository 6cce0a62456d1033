// SPDX-License-Identifier: Apache-2.0

package sim

// Connect connects the queue pair of two hosts now, ahead of the first flow. The
// receiver's grant is given, and if the scheme wants the HELLO exchange it takes
// place, in real packets that may meet queues. Without Connect, the pair is
// connected when its first flow starts, and the HELLO is taken to have happened
// just before in an idle network.
func (n *Net) Connect(src, dst int) {
	_, known := n.pairs[[2]int32{int32(src), int32(dst)}]
	pr := n.connect(int32(src), int32(dst))
	if !known && n.needs.Scope == PerDestination {
		pr.pacer = n.newPacer(pr, pr.path)
		if n.needs.Hello {
			pr.pacer.Probe()
		}
		pr.pacer.Update()
	}
}

func (n *Net) connect(src, dst int32) *pair {
	key := [2]int32{src, dst}
	if pr := n.pairs[key]; pr != nil {
		return pr
	}
	pr := n.newPairs.take()
	pr.src, pr.dst = src, dst
	hash := mix(n.cfg.Seed ^ mix(uint64(src)<<20^uint64(dst)))
	// Add has found that there is a path.
	pr.fwd, _ = n.routing.find(src, dst, hash)
	pr.rev, _ = n.routing.find(dst, src, mix(hash+1))
	pr.path = n.path(&pr.fwd, &pr.rev)
	n.pairs[key] = pr
	if r := n.hosts[dst].receiver; r != nil {
		pr.grant = r.Connect(n.wheel.now.ns(), int(src))
	}
	return pr
}

// discover gives a new pacer the result of a HELLO exchange in an idle network.
func (n *Net) discover(pr *pair, p *Pacer) {
	if !n.needs.Hello {
		return
	}
	src, dst := &n.hosts[pr.src], &n.hosts[pr.dst]
	var out, home tick
	for _, pi := range pr.fwd.all() {
		out += n.ports[pi].delay + n.ports[pi].serialise(ControlWireBytes)
	}
	for _, pi := range pr.rev.all() {
		home += n.ports[pi].delay + n.ports[pi].serialise(ControlWireBytes)
	}
	now := n.wheel.now
	turned := now - home
	came := turned - dst.turnaround
	n.ack = Ack{
		Probe: true, Idle: true,
		T1: src.clock.read(came - out), T2: dst.clock.read(came), T2Out: dst.clock.read(turned), T3: src.clock.read(now),
		RTTNs: (out + home + dst.turnaround).ns(), Hops: pr.fwd.links,
	}
	p.ctl.Ack(now.ns(), p, &n.ack)
}

// Probe sends a stamped control packet; its echo is an Ack with Probe set.
func (p *Pacer) Probe() {
	n := p.net
	id := n.control(kindProbe, noIndex, p.pair, false)
	n.meta[id].tag = uint32(p.id)
	if p.InflightBytes == 0 {
		n.pkts[id].flags |= flagIdle
	}
	p.host.post(id)
}

// control makes a control packet from one end of a pair to the other.
func (n *Net) control(kind pktKind, flow int32, pr *pair, back bool) int32 {
	id := n.newPacket(kind, flow, ControlWireBytes)
	pk := &n.pkts[id]
	pk.queue = controlQueue
	if back {
		pk.along(&pr.rev)
		n.meta[id] = packetMeta{src: uint16(pr.dst), peer: uint16(pr.src), msg: fromReceiver}
	} else {
		pk.along(&pr.fwd)
		n.meta[id] = packetMeta{src: uint16(pr.src), peer: uint16(pr.dst)}
	}
	return id
}

// echo sends a probe back.
func (h *host) echo(id int32) {
	n := h.n
	pk, c := &n.pkts[id], &n.meta[id]
	pr := n.pairs[[2]int32{int32(c.src), h.id}]
	c.links = pk.hop
	pk.kind = kindEcho
	pk.along(&pr.rev)
	h.answer(id)
}

func (h *host) receiveEcho(id int32) {
	n := h.n
	pk, c := &n.pkts[id], &n.meta[id]
	p := n.pacers[c.tag]
	if p == nil || p.pair != n.pairs[[2]int32{h.id, int32(c.peer)}] {
		return // its flow has ended
	}
	n.ack = Ack{
		Probe: true, Idle: pk.flags&flagIdle != 0 && p.InflightBytes == 0,
		T1: c.t1, T2: c.t2, T2Out: c.t2out, T3: h.clock.read(n.wheel.now), RTTNs: (n.wheel.now - pk.sent).ns(), Hops: c.links,
	}
	p.ctl.Ack(n.wheel.now.ns(), p, &n.ack)
	p.Update()
}

// Send sends a message to the Receiver of the pacer's destination. f is the flow
// it is about, nil = none.
func (p *Pacer) Send(f *Flow, m Message) { p.net.sendMessage(p.pair, false, f, m) }

func (n *Net) sendMessage(pr *pair, back bool, f *Flow, m Message) {
	flow := noIndex
	if f != nil {
		flow = f.id
	}
	id := n.control(kindMessage, flow, pr, back)
	pk, c := &n.pkts[id], &n.meta[id]
	if f != nil {
		pk.along(&f.fwd)
		if back {
			pk.along(&f.rev)
		}
	}
	c.msg |= m.Kind
	c.cum, c.t2, c.t2out = m.Seq, m.Bytes, m.Aux
	if m.Kind == MsgCredit {
		pk.wire = CreditWireBytes
		if n.needs.CreditQueue != nil {
			pk.queue = creditClass
		}
	}
	n.hosts[c.src].post(id)
}

func (h *host) receiveMessage(id int32) {
	n, now := h.n, h.n.wheel.now.ns()
	pk, c := &n.pkts[id], &n.meta[id]
	n.msg = Message{Kind: c.msg &^ fromReceiver, Seq: c.cum, Bytes: c.t2, Aux: c.t2out}
	var f *Flow
	if pk.flow >= 0 {
		f = n.flows[pk.flow]
	}
	src := int32(c.src)
	if c.msg&fromReceiver == 0 {
		if h.receiver != nil {
			h.receiver.Message(now, int(src), f, &n.msg)
		}
		return
	}
	if f != nil {
		h.toControl(now, f.pacer, f)
		return
	}
	pr := n.pairs[[2]int32{h.id, src}]
	if pr.pacer != nil {
		h.toControl(now, pr.pacer, nil)
		return
	}
	for _, g := range pr.flows {
		m := n.msg
		h.toControl(now, g.pacer, g)
		n.msg = m
	}
}

func (h *host) toControl(now int64, p *Pacer, f *Flow) {
	if p != nil {
		p.ctl.Message(now, p, f, &h.n.msg)
		p.Update()
	}
}

// hostOut is the Out of one host.
type hostOut struct{ h *host }

func (o *hostOut) CNP(f *Flow) {
	n := o.h.n
	id := n.control(kindCNP, f.id, n.pairs[[2]int32{int32(f.Src), int32(f.Dst)}], true)
	n.pkts[id].along(&f.rev)
	o.h.post(id)
}

func (o *hostOut) Send(f *Flow, m Message) {
	n := o.h.n
	n.sendMessage(n.pairs[[2]int32{int32(f.Src), int32(f.Dst)}], true, f, m)
}

func (o *hostOut) SendTo(src int, m Message) {
	n := o.h.n
	if pr := n.pairs[[2]int32{int32(src), o.h.id}]; pr != nil {
		n.sendMessage(pr, true, nil, m)
	}
}

func (o *hostOut) WakeAt(f *Flow, ns int64) {
	n, id := o.h.n, o.h.timer
	if f != nil {
		if f.rcvSlot == noIndex {
			f.rcvSlot = n.wheel.newSlot(evRcvTimer, f.id)
		}
		id = f.rcvSlot
	}
	if ns == 0 {
		n.wheel.cancel(id)
		return
	}
	n.wheel.set(id, tick(ns)*nanosecond)
}

func (o *hostOut) LinkBps() uint64 { return o.h.n.ports[o.h.port].bps }

// BufferBytes is what the last hop's queue may hold: with the dynamic threshold,
// alone in the switch, alpha/(1+alpha) of the buffer.
func (o *hostOut) BufferBytes() int64 {
	n := o.h.n
	last := n.ports[o.h.port^1].node
	if int(last) < n.topo.Hosts {
		return n.cfg.BufferBytes
	}
	a := n.cfg.Alpha
	if n.ingress != nil {
		a = n.cfg.PFCAlpha
	}
	return int64(float64(n.switches[int(last)-n.topo.Hosts].shared) * a / (1 + a))
}

func (o *hostOut) Path(f *Flow) *Path {
	if f.pacer != nil {
		return &f.pacer.Path
	}
	return &o.h.n.pairs[[2]int32{int32(f.Src), int32(f.Dst)}].path
}
