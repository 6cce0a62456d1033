// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// address returns the address of the port for traffic with the peer: of its family, and
// link-local only if the peer is.
func address(port verbs.Port, peer netip.Addr) (netip.Addr, error) {
	peer = peer.Unmap()
	all := slices.DeleteFunc(slices.Clone(port.GIDs), func(a netip.Addr) bool {
		a = a.Unmap()
		return !a.IsValid() || a.Is4() != peer.Is4() || a.IsLinkLocalUnicast() != peer.IsLinkLocalUnicast()
	})
	if len(all) == 0 {
		return netip.Addr{}, fmt.Errorf("the interface has no address of the kind of %s: give it one with `ip address add`", peer)
	}
	return all[0].Unmap(), nil
}

// describe returns what the peer needs to know of the interfaces: addresses for traffic with it, and the MTU.
func (e *end) describe(peer netip.Addr) (m message, err error) {
	port, err := e.dev.Port()
	if err != nil {
		return m, err
	}
	if m.Addr, err = address(port, peer); err != nil {
		return m, err
	}
	m.Rails, m.MTU, err = e.rails(peer, port.MTU)
	return m, err
}

// Runs in out-of-order mode use the further interfaces of both ends, if the devices were opened with some.
// The two ends tell each other the addresses. The n-th further interface of the client leads to the n-th
// of the server.

// rails returns an address of each further interface for traffic with the peer, and the least MTU of them
// and of the device's own.
func (e *end) rails(peer netip.Addr, mtu int) ([]netip.Addr, int, error) {
	d, ok := e.dev.(verbs.RailDevice)
	if !ok || e.plan.Service != "ooo" {
		return nil, mtu, nil
	}
	ports, err := d.Rails()
	if err != nil {
		return nil, 0, err
	}
	var out []netip.Addr
	for i, p := range ports {
		a, err := address(p, peer)
		if err != nil {
			return nil, 0, fmt.Errorf("further interface %d: %w", i+1, err)
		}
		out, mtu = append(out, a), min(mtu, p.MTU)
	}
	return out, mtu, nil
}

// useRails has queue pairs use the first n further interfaces, n being what the client has.
func (e *end) useRails(x verbs.QP, n int, peer []netip.Addr) error {
	switch q, ok := x.(verbs.RailQP); {
	case n == 0:
		return nil
	case n > len(peer):
		return fmt.Errorf("the server has %d further interfaces and the client %d: name as many with --rail at both", len(peer), n)
	case !ok:
		return fmt.Errorf("this device has one interface")
	default:
		var to []verbs.AddressVector
		for _, a := range peer[:n] {
			to = append(to, verbs.AddressVector{Dst: a})
		}
		return q.UseRails(to...)
	}
}
