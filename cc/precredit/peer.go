// SPDX-License-Identifier: Apache-2.0

package precredit

import "slices"

// Peer is a host with which there is or was pre-credit, in both directions. Its Sender is the sending half.
// Where Peer has a method of the same name as Sender, that one also calls the Port and brings the lists of the
// endpoint up to date: hosts call it.
type Peer struct {
	*Sender

	ID   SenderID
	Port Port
	// Implied: the peer understands pre-credit, as a grant of it has shown before its capability was known.
	Implied bool

	end        *Endpoint
	flows      []*Flow // flows that are connected, in this order
	advertised bool    // the peer has the capability
	enabled    bool    // pre-credit is turned on

	ready, lost bool   // the peer is in these lists of the endpoint
	credited    bool   // the packet that SendData sends has pre-credit
	epoch, void uint32 // bytes given up of this epoch, as last counted
}

// Flows returns the flows that are connected, in this order.
func (p *Peer) Flows() []*Flow { return p.flows }

// Enabled reports whether pre-credit is turned on.
func (p *Peer) Enabled() bool { return p.enabled }

// Connect adds a flow. If pre-credit is on, TakeFlows shows it to the receiver.
func (p *Peer) Connect(f *Flow) {
	if len(p.flows) == 0 {
		p.advertised, p.Implied = false, false
	}
	p.flows = append(p.flows, f)
	p.newFlow()
}

// newFlow has TakeFlows show a new flow to the receiver, if pre-credit is on then.
func (p *Peer) newFlow() {
	if p.enabled {
		p.end.flows = append(p.end.flows, p)
	}
}

// Disconnect removes a flow. The host has called TurnOff before for the last one.
func (p *Peer) Disconnect(f *Flow) {
	p.End(f)
	p.flows = slices.DeleteFunc(p.flows, func(o *Flow) bool { return o == f })
	p.Idle() // what is in flight may have been of this flow alone
	p.markReady()
}

// Understands notes whether the peer has the capability, and returns whether pre-credit should be on.
// stamps: the peer stamps its packets, without which there is no credit.
func (p *Peer) Understands(capable, stamps bool) (on bool) {
	if p.advertised && !capable { // what implied it has gone since
		p.Implied = false
	}
	p.advertised = capable
	return stamps && (capable || p.Implied)
}

// TurnOn begins pre-credit with the peer. TakeFlows grants to it.
func (p *Peer) TurnOn() {
	p.enabled = true
	p.newFlow()
}

// TurnOff ends pre-credit with the peer: what is unused at either end goes back. The host sends what
// NextGrant has then.
func (p *Peer) TurnOff() {
	if !p.enabled {
		return
	}
	p.sendReturn(p.Stop())
	for _, f := range p.flows {
		p.End(f)
	}
	p.end.Receiver.Leave(p.ID)
	p.end.grants = true
	p.enabled = false
	p.apply()
}

// Renew forgets what the peer has granted: it was started again, and its accounts have new numbers.
// Pre-credit is off.
func (p *Peer) Renew() {
	p.end.past.add(p.Stats())
	p.Sender, p.epoch, p.void = NewSender(p.p), 0, 0
}

// Busy reports whether the endpoint has anything to do for the peer, or the receiver has given it a share.
func (p *Peer) Busy() bool { return p.ready || p.lost || p.end.Receiver.Share(p.ID) != 0 }

// apply is called after each event of the sender.
func (p *Peer) apply() {
	w, _ := p.Window()
	p.Port.Apply(w, p.Released())
}

// markReady has Send serve the peer: its first flow may have pre-credit now, as a grant came or the flow has
// just become the first.
func (p *Peer) markReady() {
	if !p.ready && p.enabled && p.Waits() {
		p.ready = true
		p.end.ready = append(p.end.ready, p)
	}
}

// watch has Step do what is due when the sender's deadline has come.
func (p *Peer) watch() {
	if at, e := p.Deadline(), p.end; at != 0 && (e.timer == 0 || at < e.timer) {
		e.timer = at
	}
}

// sendReturn sends a CREDIT_RETURN if there is one.
func (p *Peer) sendReturn(r Return, send bool) {
	if !send {
		return
	}
	if r.Epoch != p.epoch {
		p.epoch, p.void = r.Epoch, 0
	}
	p.end.Counts.Returned += uint64(r.Void - p.void)
	p.void = r.Void
	p.Port.SendReturn(r)
}
