// SPDX-License-Identifier: Apache-2.0

package sim

// smallPorts is how many ports' data fit the caches without looking ahead.
const smallPorts = 256

// steps is how many buckets ahead of their turn events are looked at first.
const steps = 4

// batch is events of a bucket whose turn comes soon.
type batch struct {
	n    int
	what [48]uint32
}

// ahead has what the next events need brought into the caches. In a large network
// none of it is there, and one event after the other would wait for memory at every
// step from packet to port or flow to what that refers to. Here each step is done
// for all events of a bucket before the next one, while those of the buckets before
// are handled. It changes nothing.
type ahead struct {
	batches [steps]batch
	turn    int
	upTo    int64 // the bottom bucket looked at last
}

func (n *Net) lookAhead() {
	a := &n.ahead
	n.step4(&a.batches[a.turn])
	n.look(&a.batches[a.turn])
	n.step3(&a.batches[(a.turn+1)%steps])
	n.step2(&a.batches[(a.turn+2)%steps])
	n.step1(&a.batches[(a.turn+3)%steps])
	a.turn = (a.turn + 1) % steps
}

func (n *Net) look(b *batch) {
	w, a := n.wheel, &n.ahead
	l := &w.levels[0]
	b.n = 0
	if a.upTo < w.pos {
		a.upTo = w.pos - 1
	}
	next := l.after(a.upTo)
	if next < 0 || next > w.pos+l.mask {
		return
	}
	a.upTo = next
	for id := l.heads[next&l.mask]; id >= 0; {
		c := &w.chunks[id]
		for i := range c.events[:c.n] {
			if b.n == len(b.what) {
				break
			}
			e := &c.events[i]
			b.what[b.n] = e.what
			b.n++
			switch o := e.owner(); e.kind() {
			case evArrive:
				prefetchPacket(&n.pkts[o])
			case evFree:
				prefetchPort(&n.ports[o])
			default:
				prefetchSlot(&w.slots[o])
			}
		}
		id = c.next
	}
	if next = l.after(next); next >= 0 {
		prefetchChunk(&w.chunks[l.heads[next&l.mask]])
	}
}

func (n *Net) step1(b *batch) {
	for _, x := range b.what[:b.n] {
		e := event{what: x}
		switch o := e.owner(); e.kind() {
		case evArrive:
			pk := &n.pkts[o]
			if pk.hop == pk.links {
				prefetchHost(&n.hosts[n.ports[pk.from()^1].node])
				prefetchCargo(&n.cargo[o])
				if pk.flow >= 0 {
					prefetchFlow(n.flows[pk.flow])
				}
			} else if int(pk.hop) < maxLinks {
				out := int32(pk.route[pk.hop])
				prefetchPort(&n.ports[out])
				if n.ingress != nil {
					prefetchIngress(&n.ingress[int(pk.from()^1)*n.numQueues])
				}
			}
		case evFree:
			p := &n.ports[o]
			if p.host {
				prefetchHost(&n.hosts[p.node])
			} else if p.ready&(1<<dataQueue) != 0 {
				prefetchPacket(&n.pkts[n.queueOf(o, dataQueue).head])
			}
		default:
			s := &n.wheel.slots[o]
			switch s.kind {
			case evPace, evTimer:
				if p := n.pacers[s.owner]; p != nil {
					prefetchPacer(p)
				}
			case evRTO, evStart:
				prefetchFlow(n.flows[s.owner])
			}
		}
	}
}

func (n *Net) step2(b *batch) {
	for _, x := range b.what[:b.n] {
		e := event{what: x}
		switch o := e.owner(); e.kind() {
		case evArrive:
			pk := &n.pkts[o]
			if pk.hop == pk.links {
				if pk.flow >= 0 {
					f := n.flows[pk.flow]
					hp := n.hosts[n.ports[pk.from()^1].node].port
					prefetchPort(&n.ports[hp])
					if pk.kind == kindAck && f.pacer != nil {
						prefetchPacer(f.pacer)
						if f.sel != nil {
							prefetchSelective(f.sel)
						}
					}
				}
			} else if int(pk.hop) < maxLinks {
				n.tails(int32(pk.route[pk.hop]))
			}
		case evFree:
			p := &n.ports[o]
			if p.host {
				h := &n.hosts[p.node]
				if l := h.lists[0].head; l != nil {
					prefetchPacer(l)
				}
			}
			n.tails(o)
		}
	}
}

func (n *Net) tails(pi int32) {
	p := &n.ports[pi]
	if p.lastAt >= n.wheel.now && p.last >= 0 {
		prefetchPacket(&n.pkts[p.last])
	}
	if p.ready&(1<<dataQueue) != 0 {
		prefetchPacket(&n.pkts[n.queueOf(pi, dataQueue).tail])
	}
}

func (n *Net) step3(b *batch) {
	for _, x := range b.what[:b.n] {
		e := event{what: x}
		switch o := e.owner(); e.kind() {
		case evArrive:
			pk := &n.pkts[o]
			if pk.hop == pk.links {
				if pk.flow >= 0 {
					f := n.flows[pk.flow]
					n.tails(n.hosts[n.ports[pk.from()^1].node].port)
					_ = f
				}
			}
		case evFree:
			p := &n.ports[o]
			if p.host {
				h := &n.hosts[p.node]
				if l := h.lists[0].head; l != nil && len(l.sending) > 0 {
					prefetchFlow(l.sending[0])
				}
			} else if p.ready&(1<<dataQueue) != 0 && n.ingress != nil {
				if pk := &n.pkts[n.queueOf(o, dataQueue).head]; pk.in >= 0 {
					prefetchIngress(&n.ingress[int(pk.in)*n.numQueues])
				}
			}
		}
	}
}

func (n *Net) step4(b *batch) {}
