// SPDX-License-Identifier: Apache-2.0

package card

import (
	"errors"
	"net/netip"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/engine"
)

// address is where packets go, as the registers of a queue pair or an address handle in the DDR have it.
type address struct {
	src, dst          netip.Addr
	mac               [6]byte
	node, port        uint32
	tclass, hopLimit  uint8
	addressesAreValid bool
}

// readPath returns the address of a queue pair.
func readPath(e regs.Qp) address {
	v := e.Route()
	r := address{
		src: regs.AddrOf(e.SrcAddr(), e.SrcAddrLow()), dst: regs.AddrOf(e.DstAddr(), e.DstAddrLow()), mac: regs.MACOf(e.Path().Mac()),
		node: v.Node(), port: v.Port(), tclass: uint8(v.Tclass()), hopLimit: uint8(v.HopLimit()),
	}
	r.addressesAreValid = r.src.Is4() == r.dst.Is4()
	return r
}

// handleAt reads entry i of the table of address handles of a queue pair, or returns nil if it
// does not exist or is of another protection domain.
func (d *dataPath) handleAt(x *queuePair, i uint32) *address {
	if i >= x.ah.entries {
		return nil
	}
	var b [regs.AddressHandleBytes]byte
	if d.ddr.ReadAt(b[:], x.ah.base+uint64(i)*x.ah.entry) != nil {
		return nil
	}
	h := regs.AddressHandle(b[:])
	r := &address{
		src: regs.AddrOf(h.SrcAddr(), h.SrcAddrLow()), dst: regs.AddrOf(h.DstAddr(), h.DstAddrLow()), mac: regs.MACOf(h.Mac()),
		node: h.Node(), port: h.Port(), tclass: uint8(h.Tclass()), hopLimit: uint8(h.HopLimit()),
	}
	if !h.Valid() || h.AhPd() != x.pd || r.src.Is4() != r.dst.Is4() {
		return nil
	}
	return r
}

// route is an address with the engine's path to it, which follows the blocks ports and nodes.
type route struct {
	address
	path *engine.Path
}

// handle is an address handle of the engine. Work requests name entries of a table in the DDR, which is read for each:
// while an entry stays the same, they share a handle.
type handle struct {
	*route
	at   engine.Address
	uses int // work requests that may need it, and 1 while it is that of its entry
}

// Address implements engine.AddressHandle.
func (h *handle) Address() *engine.Address { return &h.at }

// Destroy implements verbs.AH. The queue pair destroys its handles.
func (h *handle) Destroy() error { return nil }

// network is what the card knows of its ports, of nodes, and of the addresses in use.
type network struct {
	m    *Model
	in   inside
	core *engine.Core

	ports        [regs.PortsCount]outPort
	out          output
	nodes        map[netip.Addr]int // numbers by address; nil: to be read again
	entries      map[uint32]*entry  // entries of nodes that were asked for
	entriesStale bool               // registers of the destination table have changed
	routes       map[*route]struct{}
	routesStale  bool // the blocks ports or nodes have changed
}

// handleFor returns the handle of entry i of the table of a queue pair, which has the address a now.
func (d *network) handleFor(x *queuePair, i uint32, a *address) *handle {
	old := x.handles[i]
	if old != nil && old.address == *a {
		return old
	}
	h := &handle{route: d.newRoute(*a), uses: 1}
	h.at = engine.Address{Path: h.path, Flow: engine.Flow{TClass: a.tclass, HopLimit: a.hopLimit}}
	d.core.Open(&h.at)
	if x.handles == nil {
		x.handles = map[uint32]*handle{}
	}
	x.handles[i] = h
	d.endUse(old)
	return h
}

// endUse ends a use of a handle. nil: there is none.
func (d *network) endUse(h *handle) {
	if h == nil {
		return
	}
	if h.uses--; h.uses == 0 {
		d.core.Close(&h.at)
		h.path.Release()
	}
}

// newRoute returns a route, until its path is released.
func (d *network) newRoute(a address) *route {
	r := &route{address: a}
	r.path = engine.NewPath(d.pathState(&r.address), func() { delete(d.routes, r) })
	d.routes[r] = struct{}{}
	return r
}

// renewRoutes has all routes follow the blocks ports and nodes.
func (d *network) renewRoutes() {
	if d.routesStale {
		d.routesStale = false
		for r := range d.routes {
			r.path.Set(d.pathState(&r.address))
		}
	}
}

var errNoPort = errors.New("card: the address has no port that is enabled")

// pathState returns how packets get to an address now.
func (d *network) pathState(a *address) *engine.PathState {
	s := &engine.PathState{Src: a.src, Dst: a.dst, NextHop: a.dst, DstMAC: a.mac, Entry: d.entryOf(a.node)}
	i, ok := d.portOf(a)
	if !ok || i >= len(d.ports) {
		s.Err = errNoPort
		return s
	}
	from := d.port(i)
	if !from.enable {
		s.Err = errNoPort
	}
	s.SrcMAC, s.MTU, s.Port = from.mac, int(from.mtu), &d.ports[i]
	copy(s.Ether[:], a.mac[:])
	copy(s.Ether[6:], from.mac[:])
	s.Ether[12], s.Ether[13] = 0x08, 0x00
	if a.src.Is6() {
		s.Ether[12], s.Ether[13] = 0x86, 0xdd
	}
	return s
}

// port is what packets need of an element of block ports.
type port struct {
	enable, loopback bool
	mac              [6]byte
	mtu              uint32
}

func (d *network) port(i int) port {
	e := regs.PortsOf(d.in, i)
	c := e.Control()
	return port{enable: c.Enable(), loopback: c.Loopback(), mac: regs.MACOf(e.Mac().Address()), mtu: e.Mtu().Bytes()}
}

// portOf returns the port that leads to a peer: that of its node (S1.8), or the one that the address
// names. It returns false if the node does not exist.
func (d *network) portOf(a *address) (int, bool) {
	if a.node == 0 {
		return int(a.port), true
	}
	if a.node > regs.NodesNodeCount {
		return 0, false
	}
	n := regs.NodesOf(d.in).Node(int(a.node) - 1)
	return int(n.Port()), n.Valid()
}
