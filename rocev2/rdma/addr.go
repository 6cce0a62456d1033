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
