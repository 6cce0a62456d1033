// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"fmt"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

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
