// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Addresses of this end: those of the device. A loopback address of another one (127.0.0.1, ::1, localhost)
// means the device itself, which is how a program reaches its own host.

// addresses returns the addresses of a device, its GIDs.
func addresses(port verbs.Port) (list []netip.Addr) {
	for _, g := range port.GIDs {
		if g.IsValid() {
			list = append(list, g.Unmap())
		}
	}
	return list
}

// ends are the addresses of both ends of an attempt to connect or to resolve.
type ends struct{ local, peer netip.Addr }

// findEnds returns the addresses of both ends for a peer: the peer itself, or an address of the device for
// a loopback address. Local is the address that the application has chosen; without one, it is the peer's
// if the device has it, or the source address of the kernel's route, or the first one of the same IP
// version. The error says why the peer cannot be reached from there, without a message to it.
func (h *host) findEnds(ctx context.Context, port verbs.Port, local, peer netip.Addr) (_ ends, err error) {
	own := addresses(port)
	e := ends{local: local.Unmap().WithZone(""), peer: peer}
	if peer.IsLoopback() && !slices.Contains(own, peer) {
		if e.peer, err = ofDevice(own, peer); err != nil {
			return ends{}, err
		}
	}
	if e.local.IsValid() && !slices.Contains(own, e.local) {
		return ends{}, fmt.Errorf("WithLocal is %s: choose an address of the device, which has %v", local, own)
	}
	routed := kernelSource(e.peer)
	if !e.local.IsValid() {
		if e.local, err = source(own, e.peer, routed); err != nil {
			return ends{}, err
		}
	}
	if slices.Contains(own, e.peer) || e.local == routed {
		return e, nil
	}
	return e, h.checkRoute(ctx, e)
}

// ofDevice returns the address of a device that a loopback address means: the first one of its IP version,
// mostly not a link-local one.
func ofDevice(own []netip.Addr, loopback netip.Addr) (found netip.Addr, err error) {
	for _, a := range own {
		if a.Is4() == loopback.Is4() && (!found.IsValid() || found.IsLinkLocalUnicast() && !a.IsLinkLocalUnicast()) {
			found = a
		}
	}
	if !found.IsValid() {
		err = fmt.Errorf("%s is the device itself, which has no address of this IP version, only %v", loopback, own)
	}
	return found, err
}

// source returns the local address for a peer. routed is the source address of the kernel's route.
func source(own []netip.Addr, peer, routed netip.Addr) (netip.Addr, error) {
	var same []netip.Addr
	for _, a := range own {
		if a.Is4() == peer.Is4() && a.IsLinkLocalUnicast() == peer.IsLinkLocalUnicast() {
			same = append(same, a)
		}
	}
	switch {
	case len(same) == 0:
		return netip.Addr{}, fmt.Errorf("the device has no address from which %s can be reached, only %v", peer, own)
	case slices.Contains(same, peer):
		return peer, nil
	case slices.Contains(same, routed):
		return routed, nil
	}
	return same[0], nil
}

// kernelSource returns the source address of the kernel's route to a peer in the network namespace of this
// process, or an invalid address. Connecting a UDP socket sends nothing.
func kernelSource(peer netip.Addr) netip.Addr {
	s, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(peer, rocev2.UDPPort)))
	if err != nil {
		return netip.Addr{}
	}
	defer s.Close()
	return s.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}

// checkRoute asks the device whether it has a route: this process may be in another network namespace,
// whose routes are others. An address handle is made for that, which waits until the neighbour is known.
func (h *host) checkRoute(ctx context.Context, e ends) error {
	done := make(chan error, 1)
	go func() {
		ah, err := h.pd.CreateAH(verbs.AddressVector{Src: e.local, Dst: e.peer, HopLimit: rocev2.DefaultTTL})
		if err == nil {
			err = ah.Destroy()
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// place is where a listener takes requests.
type place struct {
	addr     netip.Addr // unspecified: every address of the device
	port     uint16
	loopback bool // requests of the device itself only, at any of its addresses
}

// findPlace returns the place of the first address of a list that the device has, or an error.
func findPlace(dev verbs.Device, list []netip.AddrPort) (place, error) {
	port, err := dev.Port()
	if err != nil {
		return place{}, err
	}
	own := addresses(port)
	for _, x := range list {
		p := place{addr: x.Addr().WithZone(""), port: x.Port()} // the interface is the zone
		if p.addr.IsUnspecified() || slices.Contains(own, p.addr) {
			return p, nil
		}
		if p.addr.IsLoopback() {
			p.loopback = true
			return p, nil
		}
	}
	return place{}, fmt.Errorf("the device does not have %s: choose one of %v, or none to listen at all of them", list[0].Addr(), own)
}

// takes reports whether a request is for this place.
func (p place) takes(e *cm.Event) bool {
	if p.loopback {
		return e.Path.Remote.Addr == e.Path.Local.Addr
	}
	return p.addr.IsUnspecified() || p.addr == e.Path.Local.Addr
}
