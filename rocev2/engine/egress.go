// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// egress is how a queue pair sends on one interface. A queue pair in out-of-order mode has one more for each
// further interface (ooo_rails.go). An egress is queued at the destination of its next packet (tx_sched.go).
type egress struct {
	qp      *QP              // nil: queue pair 1 (mad.go)
	Address                  // address of the peer; empty for UD, and without a connection
	home    *dest            // destination at which the egress is queued to send; nil: nothing may be sent
	drr     drrFlow[*egress] // entry in the queue of home
	src     netip.Addr       // address of the interface that the peer sends to
	crypt   *keys            // nil unless the queue pair is encrypted
}

// Address is where packets go. A queue pair of RC or UC has one, and each address handle of UD.
type Address struct {
	Path *Path
	dest *dest // nil: there is no address, as without a connection, or Close was called
	Flow Flow
}

// Flow has the fields of IP and UDP that the path does not give.
type Flow struct {
	TClass, HopLimit uint8  // fields of IP that the application chooses
	port             uint16 // UDP source port; 0: each packet has another one
}

// AddressHandle is an address handle as work requests to a core have it.
type AddressHandle interface {
	verbs.AH
	// Address returns the address. It is called in the core's goroutine.
	Address() *Address
}

// Open gives an address its destination. Until Close it counts as a user of it.
func (e *Core) Open(a *Address) { a.dest = e.dests.destination(a.Path) }

// OpenForAnswers is Open for answers of the communication manager, until OpenForData: they make no entry in the
// program's table of destinations (answers.go).
func (e *Core) OpenForAnswers(a *Address) { a.dest = e.dests.answerDestination(a.Path) }

// OpenForData makes the destination of an open address an ordinary one. Without one, it does nothing.
func (e *Core) OpenForData(a *Address) {
	if a.dest != nil {
		e.dests.endAnswers(a.dest)
	}
}

// Close takes the destination from an address. Messages to it that were posted and have not left are lost.
func (e *Core) Close(a *Address) {
	e.dests.drop(a.dest)
	a.dest = nil
}

// noRoute is the path of a packet without an address.
var noRoute = &PathState{Err: errors.New("nic: no address")}

// current returns the state of the path.
func (a *Address) current() *PathState {
	if a.dest == nil {
		return noRoute
	}
	return a.Path.Current()
}

// next returns the address of the next packet of data. A queue pair of UD names one in each work request.
func (g *egress) next() *Address {
	if g.qp.typ == verbs.UD {
		if a, ok := g.qp.q.NextAH().(AddressHandle); ok {
			return a.Address()
		}
	}
	return &g.Address
}

// addressOf returns the address of a packet.
func (g *egress) addressOf(o *qp.Outbound) *Address {
	if a, ok := o.AH.(AddressHandle); ok {
		return a.Address()
	}
	return &g.Address
}

// destOf returns the destination whose pacer and port a packet to an address needs. Without an address the
// packet is lost at the destination at which the egress is queued.
func (g *egress) destOf(a *Address) *dest {
	if a.dest == nil {
		return g.home
	}
	return a.dest
}

// srcPort returns the UDP source port of a packet to the address.
func (a *Address) srcPort(o *qp.Outbound) uint16 {
	switch {
	case o.OOO != nil: // a path of out-of-order mode
		return o.SrcPort
	case o.AH == nil:
		return a.Flow.port
	}
	return rocev2.SourcePort(rocev2.FlowLabel(o.SrcQP, o.DestQP))
}

// hasFrame reports whether there is memory for a packet to an address.
func (t *transmitter) hasFrame(a *Address) bool {
	to := a.current()
	switch {
	case to.Err != nil: // send drops it: a queue pair without a route must not block others
		return true
	case to.Loopback:
		return t.e.rx.loopback.count < loopbackLimit
	}
	return to.portTo(a.dest).Room()
}
