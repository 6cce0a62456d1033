// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// watchLink reports changes of the interface, and nil when it is deleted.
func watchLink(index int) (<-chan netlink.Link, func(), error) {
	updates, done, out := make(chan netlink.LinkUpdate, 16), make(chan struct{}), make(chan netlink.Link, 16)
	if err := netlink.LinkSubscribe(updates, done); err != nil {
		return nil, nil, fmt.Errorf("watch the interface: %w", err)
	}
	go func() {
		for u := range updates {
			if u.Attrs().Index != index {
				continue
			}
			if u.Header.Type == rtmDelLink {
				out <- nil
				return
			}
			out <- u.Link
		}
	}()
	return out, func() { close(done) }, nil
}

const rtmDelLink = 17 // RTM_DELLINK

// linkChanged follows the MTU and the MAC address.
func (a *Agent) linkChanged(l netlink.Link) {
	attrs := l.Attrs()
	if uint32(attrs.MTU) != a.cfg.Mtu {
		a.log.Info("MTU changed", "from", a.cfg.Mtu, "to", attrs.MTU)
		a.cfg.Mtu = uint32(attrs.MTU)
	}
	if len(attrs.HardwareAddr) == len(a.cfg.Mac) && [6]byte(attrs.HardwareAddr) != a.cfg.Mac {
		a.log.Info("MAC address changed", "to", attrs.HardwareAddr)
		copy(a.cfg.Mac[:], attrs.HardwareAddr)
	}
}

// isLocal reports whether an interface of this host has the address.
func (a *Agent) isLocal(addr netip.Addr) bool {
	list, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return false
	}
	for _, x := range list {
		if ip, ok := netip.AddrFromSlice(x.IP); ok && ip.Unmap() == addr.Unmap() {
			return true
		}
	}
	return false
}
