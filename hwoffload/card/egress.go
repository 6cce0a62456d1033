// SPDX-License-Identifier: Apache-2.0

package card

import (
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// egress is how a queue pair sends. It waits at the destination of its next packet (pacer.go).
type egress struct {
	qp    *queuePair
	path  address   // address of the peer; of no meaning for UD, and without a connection
	paced turn      // place at the destination
	crypt *seal.End // nil: the queue pair is not encrypted
}

// address is where packets go: an address vector, or an address handle.
type address struct {
	src, dst          netip.Addr
	mac               [6]byte
	node, port        uint32
	tclass, hopLimit  uint8
	addressesAreValid bool
}

// Destroy implements verbs.AH. An address handle is read for each work request, so there is
// nothing to do.
func (*address) Destroy() error { return nil }

// next returns the address of the next packet of data. A queue pair of UD names one in each work request.
func (g *egress) next() *address { return g.addressAt(g.qp.q.NextAH()) }

// addressOf returns the address of a packet.
func (g *egress) addressOf(o *qp.Outbound) *address { return g.addressAt(o.AH) }

// addressAt returns the address of a packet that has an address handle (UD), or has none (nil).
func (g *egress) addressAt(ah verbs.AH) *address {
	if h, ok := ah.(*address); ok {
		return h
	}
	return &g.path
}
