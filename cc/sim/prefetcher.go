// SPDX-License-Identifier: Apache-2.0

package sim

// smallPorts is how many ports' data fit the caches without looking ahead.
const smallPorts = 256

// prefetcher has what the next events need brought into the caches. In a large network
// little of it is there, and one event after the other would wait for memory at
// every step: for the packet, for the port or flow that it names, for what that
// refers to. Here the events that come next are looked at in steps, each for a batch
// of them. What a step prefetches has come when the next one follows, as other events
// were handled in between. It changes nothing, and so it may miss events that are set
// late, and guess.
type prefetcher struct {
	batches [4]batch // a ring, with the newest at turn
	turn    int
	upTo    int64 // the bottom bucket looked at last
}

// batch is the events of some buckets.
type batch struct {
	upTo   int64 // the last of them
	n      int
	events [batchMost]event
}

const (
	batchMost  = 64
	batchLeast = 12 // unless there are no more
)

// due says whether the buckets of the oldest batch have all come.
func (a *prefetcher) due(pos int64) bool {
	return a.batches[(a.turn+len(a.batches)-1)%len(a.batches)].upTo < pos
}

// lookAhead takes up another batch and makes the next step for those before.
func (n *Net) lookAhead() {
	a := &n.prefetch
	a.turn = (a.turn + len(a.batches) - 1) % len(a.batches)
	for step := len(a.batches) - 1; step >= 0; step-- {
		b := &a.batches[(a.turn+step)%len(a.batches)]
		if step == 0 {
			n.lookAt(b)
			return
		}
		for i := range b.events[:b.n] {
			switch e := &b.events[i]; e.kind() {
			case evArrive:
				n.prefetchForPacket(step, e.owner())
			case evFree:
				n.prefetchForPort(step, e.owner())
			default:
				n.prefetchForSlot(step, e.owner())
			}
		}
	}
}

// lookAt takes up the next batch.
func (n *Net) lookAt(b *batch) {
	w, a := n.wheel, &n.prefetch
	l := &w.levels[0]
	a.upTo = max(a.upTo, w.pos-1)
	next := l.after(a.upTo)
	for b.n = 0; b.n < batchLeast && next >= 0 && next <= w.pos+l.mask; {
		a.upTo = next
		for id := l.heads[next&l.mask]; id >= 0; {
			c := &w.chunks[id]
			b.n += copy(b.events[b.n:], c.events[:c.n])
			id = c.next
		}
		if next = l.after(next); next >= 0 {
			prefetchChunk(&w.chunks[l.heads[next&l.mask]])
		}
	}
	b.upTo = a.upTo
	for i := range b.events[:b.n] {
		switch e := &b.events[i]; e.kind() {
		case evArrive:
			prefetchPacket(&n.pkts[e.owner()])
		case evFree:
			prefetchPort(&n.ports[e.owner()])
			prefetchQueues(&n.ports[e.owner()])
		default:
			prefetchSlot(&w.slots[e.owner()])
		}
	}
}

// prefetchForPacket prefetches for a packet that arrives: at a switch the port by which
// it will leave, and the packets that it will come behind; at a host the flow and
// its pacer, and the port for the answer.
func (n *Net) prefetchForPacket(step int, id int32) {
	pk := &n.pkts[id]
	in := pk.from() ^ 1
	if !pk.arrived() {
		out := int32(pk.path.ports[pk.hop%maxLinks])
		if step == 1 {
			prefetchPort(&n.ports[out])
			return
		}
		n.prefetchForTails(step, out, in)
		return
	}
	if pk.flow < 0 {
		return
	}
	f := n.flows[pk.flow]
	switch step {
	case 1:
		prefetchPort(&n.ports[in])
		prefetchMeta(&n.meta[id])
		if pk.kind == kindData {
			prefetchReceiver(f)
		} else {
			prefetchSender(f)
		}
	case 2:
		prefetchHost(&n.hosts[n.ports[in].node])
		if p := f.pacer; p != nil && pk.kind != kindData {
			prefetchPacer(p)
			if f.sel != nil {
				prefetchSelective(f.sel)
			}
		}
		n.prefetchForTails(step, in, noIndex)
	case 3:
		n.prefetchForTails(step, in, noIndex)
	}
}

// prefetchForTails prefetches what the next packet for a port will come behind: on the
// wire, and in the queue.
func (n *Net) prefetchForTails(step int, out, in int32) {
	p := &n.ports[out]
	queued := p.ready&(1<<dataQueue) != 0
	switch {
	case step == 2:
		if p.lastAt > n.wheel.now {
			prefetchPacket(&n.pkts[p.last])
		}
		if queued || p.busy > n.wheel.now {
			prefetchQueues(p)
			if in >= 0 && n.ingress != nil {
				prefetchIngress(&n.ingress[int(in)*n.cfg.Classes])
			}
		}
	case queued:
		prefetchPacket(&n.pkts[n.queueOf(out, dataQueue).tail])
	}
}

// prefetchForPort prefetches for a port that may send again: of a switch the next
// packet, of a host the next pacer and its flow.
func (n *Net) prefetchForPort(step int, pi int32) {
	p := &n.ports[pi]
	if step == 2 && p.lastAt > n.wheel.now {
		prefetchPacket(&n.pkts[p.last])
	}
	if !p.host {
		if p.ready&(1<<dataQueue) == 0 {
			return
		}
		switch id := n.queueOf(pi, dataQueue).head; step {
		case 1:
			prefetchPacket(&n.pkts[id])
		case 2:
			if pk := &n.pkts[id]; n.ingress != nil && pk.in >= 0 {
				prefetchIngress(&n.ingress[int(pk.in)*n.cfg.Classes])
			}
		}
		return
	}
	h := &n.hosts[p.node]
	if step == 1 {
		prefetchHost(h)
	} else if next := h.lists[0].head; next != nil {
		n.prefetchForPacer(step, next)
	}
}

// prefetchForPacer prefetches for a pacer that may send again.
func (n *Net) prefetchForPacer(step int, p *Pacer) {
	switch step {
	case 2:
		prefetchPacer(p)
	case 3:
		if len(p.sending) > 0 {
			prefetchSender(p.sending[0])
		}
	}
}

func (n *Net) prefetchForSlot(step int, id int32) {
	switch s := &n.wheel.slots[id]; s.kind {
	case evPace, evTimer:
		if p := n.pacers[s.owner]; p != nil {
			if step == 1 {
				prefetchPacer(p)
			} else if step == 2 {
				prefetchHost(p.host)
				n.prefetchForPacer(3, p)
			} else {
				prefetchPort(&n.ports[p.host.port])
			}
		}
	case evRTO, evStart:
		if step == 1 {
			prefetchSender(n.flows[s.owner])
		}
	}
}
