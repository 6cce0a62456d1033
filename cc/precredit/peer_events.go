// SPDX-License-Identifier: Apache-2.0

package precredit

// Post adds data to a flow. The endpoint sets Idle of the work.
func (p *Peer) Post(now int64, f *Flow, w Work) {
	if !p.enabled {
		return
	}
	_, busy := p.Port.InFlight()
	w.Idle = !busy
	p.sendReturn(p.Sender.Post(now, f, w))
	p.apply()
	p.markReady()
}

// MayStart reports whether a flow may send a packet without pre-credit, see Sender.MayStart.
func (p *Peer) MayStart(now int64, f *Flow) (may, ask bool) {
	if !p.enabled {
		return true, false
	}
	_, busy := p.Port.InFlight()
	if may, ask = p.Sender.MayStart(now, f, busy); !may {
		p.end.waits = true
		p.watch()
	}
	return may, ask
}

// sendReady sends what may leave to a peer that is ready. full: it could send more in the next Send.
// last: nothing leaves to any peer until then.
func (p *Peer) sendReady(now int64) (full, last bool) {
	for p.enabled {
		f := p.Next(now, p.Port.AheadOfRate(now))
		if f == nil {
			break // what waits can be sent without pre-credit as well
		}
		p.credited = false
		switch r := p.Port.SendData(now, f); {
		case r == ResultFull:
			return true, false
		case r == ResultFailed: // it must not block others
			p.End(f)
		default:
			if !p.credited { // a copy, or what is no data, or none: it is sent without pre-credit
				p.Skip(f)
			}
			if r == ResultLast {
				return false, true
			}
		}
	}
	return false, false
}

// Sent is called with each data packet of a flow that has a stamp, and returns the credit for it. ahead:
// SendData sends the packet. again: it was sent before.
func (p *Peer) Sent(now int64, f *Flow, n uint32, ahead, again bool) (c Credit, credited bool) {
	if c, credited = p.Sender.Sent(now, f, n, ahead, again); credited {
		p.credited = true
		p.end.Counts.Used += uint64(n)
	}
	return c, credited
}

// SentAck is called with each ACK that has a stamp, and returns the credit for it.
func (p *Peer) SentAck(now int64) (c Credit, credited bool) {
	p.end.grants = true
	return p.end.Receiver.DstScheduleCredit(now, p.ID, 0)
}

// NoteLoss has Step report to the peer what was sent: a packet is sent again that it has missed.
func (p *Peer) NoteLoss() {
	if !p.lost {
		p.lost = true
		p.end.losses = append(p.end.losses, p)
	}
}

// Loss is NoteLoss with the report at once.
func (p *Peer) Loss(now int64) { p.sendReturn(p.Sender.Loss(now)) }

// Answer takes an ACK, a NAK or a response of the peer, after the transport has processed it: Acked is what
// it has taken off InFlight.
func (p *Peer) Answer(now int64, f *Flow, a Answer) {
	bytes, _ := p.Port.InFlight()
	a.Acked = a.InFlight - min(bytes, a.InFlight)
	p.Sender.Answer(now, f, a)
	p.apply()
	p.markReady()
	p.watch()
}

// Data takes a data packet of the peer, see Receiver.Data.
func (p *Peer) Data(now int64, a Arrival) {
	if p.end.Receiver.Data(now, p.ID, a) {
		p.end.grants = true
	}
}

// Opened is called before Grant with a grant that is Open: the peer may have ignored earlier grants of this
// host, when it did not use pre-credit with it yet. TakeFlows repeats them.
func (p *Peer) Opened() {
	if p.end.Receiver.Share(p.ID) == 0 {
		p.newFlow()
	}
}

// Grant takes a CREDIT_GRANT of the peer. It reports whether the grant was up to date.
func (p *Peer) Grant(now int64, g Grant) (ok bool) {
	r, ok := p.Sender.Grant(now, g)
	if ok {
		p.sendReturn(r, true)
		p.apply()
		p.markReady()
		p.watch()
	}
	return ok
}

// Return takes a CREDIT_RETURN of the peer.
func (p *Peer) Return(now int64, r Return) {
	p.end.Receiver.Return(now, p.ID, r)
	p.end.grants = true
}

// Timeout is called when a timer of the transport ran out, see Sender.Timeout.
func (p *Peer) Timeout(ack bool) {
	if !p.enabled {
		return
	}
	bytes, _ := p.Port.InFlight()
	p.sendReturn(p.Sender.Timeout(ack, bytes))
	p.apply()
}

// Expire gives up what is due, see Sender.Expire.
func (p *Peer) Expire(now int64) {
	bytes, _ := p.Port.InFlight()
	p.sendReturn(p.Sender.Expire(now, bytes))
	p.apply()
	p.watch()
}

// Idle lets flows send that wait although nothing is in flight to the peer any more.
func (p *Peer) Idle() {
	p.Sender.Idle()
	p.apply()
}
