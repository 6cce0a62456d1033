// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/sched"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// egress is how a queue pair sends on one interface. A queue pair in out-of-order mode has one more for each
// further interface (ooo_rails.go). An egress is queued at the destination of its next packet (tx_sched.go).
type egress struct {
	qp      *QP                 // nil: queue pair 1 (mad.go)
	address                     // address of the peer; empty for UD, and without a connection
	home    *dest               // destination at which the egress is queued to send; nil: nothing may be sent
	drr     sched.Flow[*egress] // entry in the queue of home
	src     netip.Addr          // address of the interface that the peer sends to
	crypt   *seal.End           // nil unless the queue pair is encrypted
}

// address is where packets go. An egress of RC or UC has one, and each address handle of UD.
type address struct {
	path *route.Path
	dest *dest // nil: there is no address, as without a connection, or the handle was destroyed
	flow flow
}

// flow has the fields of IP and UDP that the path does not give.
type flow struct {
	TClass, HopLimit uint8  // fields of IP that the application chooses
	port             uint16 // UDP source port; 0: each packet has another one
}

// noRoute is the path of a packet without an address.
var noRoute = &route.State{Err: errors.New("nic: no address")}

// current returns the state of the path.
func (a *address) current() *route.State {
	if a.dest == nil {
		return noRoute
	}
	return a.path.Current()
}

// next returns the address of the next packet of data. A queue pair of UD names one in each work request.
func (g *egress) next() *address {
	if g.qp.typ == verbs.UD {
		if a, ok := g.qp.q.NextAH().(*AH); ok {
			return &a.address
		}
	}
	return &g.address
}

// addressOf returns the address of a packet.
func (g *egress) addressOf(o *qp.Outbound) *address {
	if a, ok := o.AH.(*AH); ok {
		return &a.address
	}
	return &g.address
}

// destOf returns the destination whose pacer and socket a packet to an address needs. Without an address the
// packet is lost at the destination at which the egress is queued.
func (g *egress) destOf(a *address) *dest {
	if a.dest == nil {
		return g.home
	}
	return a.dest
}

// srcPort returns the UDP source port of a packet to the address.
func (a *address) srcPort(o *qp.Outbound) uint16 {
	switch {
	case o.OOO != nil: // a path of out-of-order mode
		return o.SrcPort
	case o.AH == nil:
		return a.flow.port
	}
	return rocev2.SourcePort(rocev2.FlowLabel(o.SrcQP, o.DestQP))
}

// hasFrame reports whether there is memory for a packet to an address.
func (e *engine) hasFrame(a *address) bool {
	switch to := a.current(); {
	case to.Err != nil: // send drops it: a queue pair without a route must not block others
		return true
	case to.Loopback:
		return e.loopback.count < loopbackLimit
	}
	return a.dest.sock.xsk.Reserve(1) > 0
}
