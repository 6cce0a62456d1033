// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Addr is an IP address and a port of the communication manager. It is not a TCP port; the two
// do not interfere.
type Addr struct{ netip.AddrPort }

// Network implements net.Addr.
func (Addr) Network() string { return "rdma" }

// lookup returns the addresses of "host:port". A host name is resolved as for TCP.
func lookup(ctx context.Context, address string) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("port %q: give a number from 0 to 65535", service)
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(a.Unmap(), uint16(port))}, nil
	}
	if host == "" {
		return nil, errors.New("the address has no host: give a name or an IP address")
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var list []netip.AddrPort
	for _, a := range found {
		if p := netip.AddrPortFrom(a.Unmap(), uint16(port)); !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list, nil
}

// source returns the local address for a peer: the peer's own if it is on this device, or the
// source address of the kernel's route, or the first one of the same IP version.
func source(dev verbs.Device, peer netip.Addr) (netip.Addr, error) {
	port, err := dev.Port()
	if err != nil {
		return netip.Addr{}, err
	}
	var same []netip.Addr
	for _, g := range port.GIDs {
		g = g.Unmap()
		if g.IsValid() && g.Is4() == peer.Is4() && g.IsLinkLocalUnicast() == peer.IsLinkLocalUnicast() {
			same = append(same, g)
		}
	}
	if len(same) == 0 {
		return netip.Addr{}, fmt.Errorf("the device has no address from which %s can be reached, only %v", peer, port.GIDs)
	}
	if slices.Contains(same, peer) {
		return peer, nil
	}
	// Connecting a UDP socket sends nothing; the kernel looks up the route.
	if s, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(peer, rocev2.UDPPort))); err == nil {
		a := s.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
		_ = s.Close()
		if slices.Contains(same, a) {
			return a, nil
		}
	}
	return same[0], nil
}
