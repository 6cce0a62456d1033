// SPDX-License-Identifier: Apache-2.0

package precredit

import "slices"

// Endpoint is the pre-credit of a host with all its peers, in both directions: the receiver that grants to them,
// and a Peer for each of them. It does no I/O and reads no clock. Its host calls it with what happens, and it
// calls the Port of the peer for what has to be done.
//
//	connections     NewPeer, Peer.Understands, TurnOn, Connect, TakeFlows, Disconnect, TurnOff
//	to be sent      Peer.Post, MayStart, Send, Peer.Sent, NoteLoss, SentAck, NextGrant
//	received        Peer.Answer, Data, Opened, Grant, Return
//	time            Step by Deadline, Peer.Timeout
//
// The zero value has no receiver. It is for a host that only sends: NewPeer, Send and SenderStats may be called,
// and of a Peer TurnOn, Connect, Post, MayStart, Sent, Answer, Grant, Loss, Timeout and Expire.
type Endpoint struct {
	// Receiver is the receiving half.
	Receiver *Receiver
	// Counts has the counters that the receiver has not. The host counts the messages.
	Counts Counts

	ids    map[SenderID]*Peer
	peers  []*Peer // peers in the order in which they were made
	flows  []*Peer // peers whose new flow the receiver has not seen
	ready  []*Peer // peers that may have pre-credit for their first flow
	losses []*Peer // peers that have missed packets
	timer  int64   // next deadline of a sender, 0 = never
	waits  bool    // flows may be blocked in a first flight
	grants bool    // the receiver may have grants to send

	past SenderStats // counters of senders that do not exist any more
}

// Counts are counters of an endpoint.
type Counts struct {
	Used, Returned  uint64 // bytes that were sent on pre-credit, and bytes that were given up
	Grants, Returns uint64 // messages that were sent
	Ignored         uint64 // messages that were ignored
}

// NewEndpoint makes an endpoint. NewReceiver describes the parameters.
func NewEndpoint(p Params, epoch uint32) *Endpoint { return &Endpoint{Receiver: NewReceiver(p, epoch)} }

// NewPeer adds a peer. The number of no other peer is id.
func (e *Endpoint) NewPeer(id SenderID, port Port, s SenderParams) *Peer {
	p := &Peer{Sender: NewSender(s), ID: id, Port: port, end: e}
	if e.ids == nil {
		e.ids = map[SenderID]*Peer{}
	}
	e.ids[id], e.peers = p, append(e.peers, p)
	return p
}

// Peer returns the peer with a number, or nil.
func (e *Endpoint) Peer(id SenderID) *Peer { return e.ids[id] }

// Peers returns all peers, in the order in which they were made.
func (e *Endpoint) Peers() []*Peer { return e.peers }

// SenderStats are the counters of the senders towards all peers.
func (e *Endpoint) SenderStats() SenderStats {
	s := e.past
	for _, p := range e.peers {
		s.add(p.Stats())
	}
	return s
}

// TakeFlows applies S5.2 to the new flows: to the peers that were turned on, and to those that have
// connected a flow since the last call.
func (e *Endpoint) TakeFlows(now int64) {
	for _, p := range e.flows {
		if p.enabled {
			e.Receiver.NewFlow(now, p.ID)
			e.grants = true
		}
	}
	e.flows = e.flows[:0]
}

// Step does what is due. It reports whether flows may have stopped waiting.
func (e *Endpoint) Step(now int64) (released bool) {
	if e.timer != 0 && now >= e.timer {
		e.timer, released = 0, true
		for _, p := range e.peers {
			if len(p.flows) > 0 { // else all was given up
				p.Expire(now)
			}
		}
	}
	released = e.waits && e.endWaits() || released
	if len(e.losses) > 0 {
		e.reportLosses(now)
	}
	if at := e.Receiver.Deadline(); at != 0 && now >= at {
		e.Receiver.Expire(now)
		e.grants = true
	}
	return released
}

// Deadline is when Step has something to do by itself, 0 = never.
func (e *Endpoint) Deadline() int64 {
	at := e.Receiver.Deadline()
	if at == 0 || e.timer != 0 && e.timer < at {
		at = e.timer
	}
	return at
}

// endWaits releases flows that wait in a first flight although nothing is in flight, as after a
// flow has failed.
func (e *Endpoint) endWaits() (released bool) {
	e.waits = false
	for _, p := range e.peers {
		if !p.Blocked() {
			continue
		}
		if _, busy := p.Port.InFlight(); busy {
			e.waits = true
			continue
		}
		p.Idle()
		released = true
	}
	return released
}

// reportLosses reports to peers what was sent, so that they find what was lost.
func (e *Endpoint) reportLosses(now int64) {
	for i, p := range e.losses {
		p.lost, e.losses[i] = false, nil
		if p.enabled {
			p.Loss(now)
		}
	}
	e.losses = e.losses[:0]
}

// Send sends what may leave on pre-credit, of one peer after the other in the order in which they
// became ready.
func (e *Endpoint) Send(now int64) {
	kept, i := 0, 0
	last := false
	for ; i < len(e.ready) && !last; i++ { // Port.SendData may make further peers ready
		p := e.ready[i]
		var full bool
		if full, last = p.sendReady(now); full || last {
			e.ready[kept] = p
			kept++
		} else {
			p.ready = false
		}
	}
	kept += copy(e.ready[kept:], e.ready[i:])
	clear(e.ready[kept:])
	e.ready = e.ready[:kept]
}

// HasGrants reports whether the receiver may have grants to send.
func (e *Endpoint) HasGrants() bool { return e.grants }

// NextGrant is the next CREDIT_GRANT to send. The peer is nil if it was forgotten.
func (e *Endpoint) NextGrant(now int64) (p *Peer, g Grant, ok bool) {
	to, g, ok := e.Receiver.Next(now)
	if !ok {
		e.grants = false
		return nil, Grant{}, false
	}
	return e.ids[to], g, true
}

// Forget removes the peers for which idle returns true. They have no flows, and are not Busy.
func (e *Endpoint) Forget(idle func(*Peer) bool) {
	e.peers = slices.DeleteFunc(e.peers, func(p *Peer) bool {
		if !idle(p) {
			return false
		}
		e.past.add(p.Stats())
		delete(e.ids, p.ID)
		return true
	})
}
