// SPDX-License-Identifier: Apache-2.0

package sim

// receiverState is the receiving end of a flow.
type receiverState struct {
	rev     portPath
	naked   bool   // the gap was reported
	expect  uint32 // next packet in order
	end     uint32 // packets
	ackSlot int32  // evAckDelay
	// The coalesced ACK that waits for more packets: the packet that becomes it,
	// noIndex = none, and what it will say.
	heldID      int32
	heldCredit  int32
	heldPackets uint8
	heldCE      uint8
	received    int64 // payload, each byte once
	got         bitring
}

// receiveData takes a data packet and makes the ACK out of it.
func (h *host) receiveData(id int32) {
	n := h.n
	pk, c := &n.pkts[id], &n.meta[id]
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
		pk, c = &n.pkts[id], &n.meta[id]
	}

	kind, now := kindAck, n.reply.Now || last
	switch {
	case pk.psn == f.expect:
		f.accept(pk)
	case n.selective && pk.psn > f.expect:
		now = true
		if f.got.count == 0 {
			f.got.advance(f.expect)
		}
		if f.got.add(pk.psn) {
			f.received += int64(pk.payload)
		}
	case pk.psn > f.expect:
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
	done := f.expect == f.end
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
	h.acknowledge(f, id, kind, now || f.expect == f.end)
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
	if f.got.count == 0 {
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
	c := &n.meta[id]
	if f.heldID >= 0 {
		c.packets += f.heldPackets
		c.ce += f.heldCE
		c.credit += f.heldCredit
		n.freePacket(f.heldID)
		f.heldID = noIndex
	}
	if !now && int(c.packets) < n.cfg.AckEvery {
		f.heldID, f.heldPackets, f.heldCE, f.heldCredit = id, c.packets, c.ce, c.credit
		if f.ackSlot == noIndex {
			f.ackSlot = n.wheel.newSlot(evAckDelay, f.id)
		}
		if !n.wheel.isSet(f.ackSlot) {
			n.wheel.set(f.ackSlot, n.wheel.now+tick(n.cfg.AckDelay)*nanosecond)
		}
		return
	}
	if f.ackSlot != noIndex {
		n.wheel.cancel(f.ackSlot)
	}
	h.sendAck(f, id, kind)
}

func (f *Flow) ackDelayDue() {
	if id := f.heldID; id >= 0 {
		f.heldID = noIndex
		f.net.hosts[f.Dst].sendAck(f, id, kindAck)
	}
}

func (h *host) sendAck(f *Flow, id int32, kind pktKind) {
	n := h.n
	pk, c := &n.pkts[id], &n.meta[id]
	pk.kind = kind
	pk.along(&f.rev)
	pk.wire, pk.payload = uint16(n.ackWire), 0
	pk.flags &= flagRetransmit
	switch {
	case n.cfg.AckPriority:
		pk.queue = controlQueue
	case n.cfg.Classes > 1:
		pk.queue = dataQueue
	}
	c.cum, c.sack = f.expect, [2]uint64{}
	if f.got.count > 0 {
		c.sack = [2]uint64{f.got.word(f.expect + 1), f.got.word(f.expect + 65)}
	}
	h.answer(id)
}
