// SPDX-License-Identifier: Apache-2.0

package sim

// pacerState is what the core knows of a pacer.
type pacerState struct {
	net  *Net
	host *host
	ctl  Control
	pair *pair

	id          int32
	pace, timer int32 // slots
	listed      bool
	listPrio    uint8
	timerAt     int64 // time that timer is set to, 0 = nothing
	paceAt      tick  // time that pace is set to
	base        tick  // time from which the rate counts
	lastWire    int64 // bytes of the last packet

	before, after *Pacer
	sending       []*Flow  // flows that have something to send, the next one first
	first         [1]*Flow // memory of sending, enough for most pacers
}

// newPacer makes a pacer with its path and what the receiver has
// granted.
func (n *Net) newPacer(pr *pair, path Path) *Pacer {
	p := n.newPacers.take()
	p.Src, p.Dst, p.Path = int(pr.src), int(pr.dst), path
	p.pacerState = pacerState{net: n, host: &n.hosts[pr.src], pair: pr}
	p.sending = p.first[:0]
	if k := len(n.freePacers); k > 0 {
		p.id = n.freePacers[k-1]
		n.freePacers = n.freePacers[:k-1]
		n.pacers[p.id] = p
	} else {
		p.id = int32(len(n.pacers))
		n.pacers = append(n.pacers, p)
	}
	p.pace, p.timer = n.wheel.newSlot(evPace, p.id), n.wheel.newSlot(evTimer, p.id)
	p.CreditBytes, pr.grant = pr.grant, 0
	p.ctl = n.scheme.NewControl(n.wheel.now.ns(), p)
	return p
}

// end gives up a pacer whose only flow is done.
func (p *Pacer) end() {
	n := p.net
	p.unlist()
	n.wheel.drop(p.pace)
	n.wheel.drop(p.timer)
	n.pacers[p.id] = nil
	n.freePacers = append(n.freePacers, p.id)
	p.id = noIndex
}

// Update makes the core look at the fields of a pacer again. It does so by itself
// for the pacer of each call; call it after changing another one.
func (p *Pacer) Update() {
	if p.id == noIndex {
		return
	}
	if p.TimerNs != p.timerAt {
		p.timerAt = p.TimerNs
		if p.TimerNs == 0 {
			p.net.wheel.cancel(p.timer)
		} else {
			p.net.wheel.set(p.timer, tick(p.TimerNs)*nanosecond)
		}
	}
	p.arrange()
	if p.listed {
		p.net.kick(p.host.port)
	}
}

// SetPrio sets the priority of a flow among its host's flows: 0 first (the
// default), 7 last. It takes effect with the next packet.
func (p *Pacer) SetPrio(f *Flow, prio uint8) {
	f.prio = min(prio, prios-1)
	if p.listed && p.listPrio < prios {
		p.unlist()
		p.list(p.prio())
	}
}

// arrange puts the pacer where it belongs: among those that may send, or to sleep
// until its rate lets it, or nowhere.
func (p *Pacer) arrange() {
	w := p.net.wheel
	if !p.maySend() {
		p.unlist()
		p.cancelPace()
		return
	}
	due := p.due()
	if due > max(w.now, p.net.ports[p.host.port].busy) {
		p.unlist()
		if p.paceAt != due {
			p.paceAt = due
			w.set(p.pace, due)
		}
		return
	}
	p.cancelPace()
	if !p.listed {
		p.list(p.prio())
	}
}

// maySend reports whether there is something to send that window and credit allow.
func (p *Pacer) maySend() bool {
	if len(p.sending) == 0 || p.WindowBytes != 0 && p.InflightBytes >= p.WindowBytes && p.InflightBytes != 0 {
		return false
	}
	return !p.NeedsCredit || p.CreditBytes >= int64(p.pick().nextPayload())
}

// due is when the rate lets the next packet go.
func (p *Pacer) due() tick {
	if p.RateBps == 0 {
		return p.base
	}
	return p.base + tick(uint64(p.lastWire)*8_000_000_000_000/p.RateBps)
}

func (p *Pacer) cancelPace() {
	if p.paceAt != 0 {
		p.paceAt = 0
		p.net.wheel.cancel(p.pace)
	}
}

func (p *Pacer) paceDue() {
	p.paceAt = 0
	p.arrange()
	if p.listed {
		p.net.kick(p.host.port)
	}
}

func (p *Pacer) timerDue() {
	p.TimerNs, p.timerAt = 0, 0
	p.ctl.Expire(p.net.wheel.now.ns(), p)
	p.Update()
}

// pick is the flow whose turn it is: of the best priority the one that has waited
// longest.
func (p *Pacer) pick() *Flow {
	if len(p.sending) == 0 {
		return nil
	}
	best := p.sending[0]
	for _, f := range p.sending[1:] {
		if f.prio < best.prio {
			best = f
		}
	}
	return best
}

func (p *Pacer) prio() uint8 { return p.pick().prio }

// wake puts a flow among those that have something to send.
func (p *Pacer) wake(f *Flow) {
	if !f.sending && f.wantsToSend() {
		f.sending = true
		p.sending = append(p.sending, f)
	}
}

// turn moves a flow that has sent to the end, or away if it has no more.
func (p *Pacer) turn(f *Flow) {
	i := 0
	for p.sending[i] != f {
		i++
	}
	last := len(p.sending) - 1
	copy(p.sending[i:], p.sending[i+1:])
	p.sending[last] = f
	if !f.wantsToSend() {
		f.sending = false
		p.sending[last] = nil
		p.sending = p.sending[:last]
	}
}

// emit makes a data packet of f. It is in flight when this returns.
func (p *Pacer) emit(f *Flow) int32 {
	n := p.net
	psn, again := f.take()
	payload := f.payload(psn)
	wire := payload + n.headers()
	n.data = Data{PSN: psn, Bytes: int32(payload), Last: psn == f.total-1, Retransmit: again, Class: f.Class}
	if again {
		f.Retransmits++
	} else {
		p.BacklogBytes -= int64(payload)
		if p.BacklogBytes == 0 {
			p.EmptyNs = n.wheel.now.ns()
		}
	}
	if p.NeedsCredit {
		p.CreditBytes -= int64(payload)
	}
	p.InflightBytes += int64(payload)
	p.SentBytes += uint64(payload)
	p.SentWireBytes += uint64(wire)
	from := n.wheel.now
	if p.BurstNs > 0 {
		from = max(p.due(), from-tick(p.BurstNs)*nanosecond)
	}
	p.base, p.lastWire = from, int64(wire)
	p.turn(f)
	f.armRTO()

	// From here on the port counts as busy with this packet, so that what Sent
	// posts waits behind it, and so does the pacer itself.
	port := &n.ports[p.host.port]
	idle := port.busy
	port.busy = n.wheel.now + port.serialise(uint16(wire))
	p.ctl.Sent(n.wheel.now.ns(), p, f, &n.data)

	id := n.newPacket(kindData, f.id, wire)
	pk, c := &n.pkts[id], &n.meta[id]
	pk.psn, pk.payload = psn, uint16(payload)
	pk.along(&f.fwd)
	pk.queue = dataQueue + min(n.data.Class, uint8(n.cfg.Classes-1))
	if again {
		pk.flags |= flagRetransmit
	}
	if n.data.Last {
		pk.flags |= flagLast
	}
	if n.data.Unscheduled {
		pk.flags |= flagUnscheduled
	}
	*c = packetMeta{tag: n.data.Tag, xmit: f.xmit}
	f.xmit++
	p.Update()
	port.busy = idle
	return id
}
