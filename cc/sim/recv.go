// SPDX-License-Identifier: Apache-2.0

package sim

// receiverState is the receiving end of a flow.
type receiverState struct {
	expect  uint32 // next packet in order
	naked   bool   // the gap was reported
	got     bitring
	ackSlot int32 // evAckDelay
	rcvSlot int32 // evRcvTimer
	held    heldAck
	// ReceivedBytes is the payload that has arrived, each byte once.
	received int64
}

// heldAck is a coalesced ACK that waits for more packets.
type heldAck struct {
	id          int32 // packet that becomes the ACK, nobody = none
	packets, ce uint8
	credit      int32
}

// receiveData takes a data packet and makes the ACK out of it.
func (h *host) receiveData(id int32) {
	n := h.n
	pk, c := &n.pkts[id], &n.cargo[id]
	f := n.flows[pk.flow]
	c.t2 = h.clock.read(n.wheel.now)
	c.links = pk.hop
	last := pk.flags&flagLast != 0
	ce := pk.flags&flagCE != 0

	n.reply = Reply{Tag: c.tag}
	if h.receiver != nil {
		n.data = Data{
			PSN: pk.psn, Bytes: int32(pk.payload), Last: last, Retransmit: pk.flags&flagRetransmit != 0, CE: ce,
			Tag: c.tag, Class: pk.queue - dataQueue, Unscheduled: pk.flags&flagUnscheduled != 0,
		}
		h.receiver.Data(n.wheel.now.ns(), f, &n.data, &n.reply)
		pk, c = &n.pkts[id], &n.cargo[id]
	}

	kind, now := kindAck, n.reply.Now || last
	switch {
	case pk.psn == f.expect:
		f.accept(pk)
	case f.sel != nil && pk.psn > f.expect:
		now = true
		if f.got.add(pk.psn) {
			f.received += int64(pk.payload)
		}
	case f.sel == nil && pk.psn > f.expect:
		if f.naked {
			n.drop(id, DropOrder)
			return
		}
		f.naked, kind, now = true, kindNak, true
		n.Drops[DropOrder]++
		n.DataDrops[DropOrder]++
	default:
		now = true // a duplicate: the sender missed something
	}
	done := f.expect == f.total
	if done && f.EndNs == 0 {
		f.EndNs = n.wheel.now.ns()
		f.endAt = n.wheel.now
		n.DoneFlows++
	} else {
		done = false
	}

	c.tag, c.credit, c.packets, c.ce = n.reply.Tag, int32(n.reply.CreditBytes), 1, 0
	if ce {
		c.ce = 1
	}
	h.acknowledge(f, id, kind, now || f.expect == f.total)
	if done {
		if h.receiver != nil {
			h.receiver.Done(n.wheel.now.ns(), f)
		}
		if n.OnDone != nil {
			n.OnDone(f)
		}
	}
}

// accept takes the packet that was expected, and those behind it that are here.
func (f *Flow) accept(pk *packet) {
	f.received += int64(pk.payload)
	f.naked = false
	f.expect++
	if f.sel == nil {
		return
	}
	for f.got.has(f.expect) {
		f.expect++
	}
	f.got.advance(f.expect)
}

// acknowledge turns a data packet into an ACK or NAK and sends it, or holds it
// back for more packets to share it.
func (h *host) acknowledge(f *Flow, id int32, kind pktKind, now bool) {
	n := h.n
	c := &n.cargo[id]
	held := &f.held
	if held.id >= 0 {
		c.packets += held.packets
		c.ce += held.ce
		c.credit += held.credit
		n.freePacket(held.id)
		held.id = nobody
	}
	if !now && int(c.packets) < n.cfg.AckEvery {
		*held = heldAck{id: id, packets: c.packets, ce: c.ce, credit: c.credit}
		if f.ackSlot == nobody {
			f.ackSlot = n.wheel.newSlot(evAckDelay, f.id)
		}
		if !n.wheel.isSet(f.ackSlot) {
			n.wheel.set(f.ackSlot, n.wheel.now+tick(n.cfg.AckDelay)*nanosecond)
		}
		return
	}
	if f.ackSlot != nobody {
		n.wheel.cancel(f.ackSlot)
	}
	h.sendAck(f, id, kind)
}

func (f *Flow) ackDelayDue() {
	if id := f.held.id; id >= 0 {
		f.held.id = nobody
		f.net.hosts[f.Dst].sendAck(f, id, kindAck)
	}
}

func (h *host) sendAck(f *Flow, id int32, kind pktKind) {
	n := h.n
	pk, c := &n.pkts[id], &n.cargo[id]
	pk.kind = kind
	pk.along(&f.back, f.backLinks)
	pk.wire, pk.payload = uint16(n.ackWire), 0
	pk.flags &= flagRetransmit
	switch {
	case n.cfg.AckPriority:
		pk.queue = controlQueue
	case n.needs.Classes > 1:
		pk.queue = dataQueue
	}
	c.cum, c.sack = f.expect, [2]uint64{}
	if f.sel != nil && f.got.count > 0 {
		c.sack = [2]uint64{f.got.word(f.expect + 1), f.got.word(f.expect + 65)}
	}
	h.answer(id)
}
