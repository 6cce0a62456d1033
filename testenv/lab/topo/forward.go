// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
)

// RouteVia has two hosts reach each other's IPv4 address through a third one, which forwards. The
// router sends no redirects, so the packets continue to take this way.
func RouteVia(router, a, b *Host) error {
	for _, h := range []*Host{router, a, b} {
		for key, value := range map[string]string{
			"ip_forward": "1", "conf/all/rp_filter": "0",
			"conf/all/send_redirects": "0", "conf/eth0/send_redirects": "0", "conf/all/accept_redirects": "0",
		} {
			if err := h.Sysctl("net/ipv4/"+key, value); err != nil {
				return err
			}
		}
	}
	for _, x := range [][2]*Host{{a, b}, {b, a}} {
		link, err := x[0].nl.LinkByName(IfName)
		if err != nil {
			return fmt.Errorf("topo: %s: %w", x[0].name, err)
		}
		to := &net.IPNet{IP: x[1].v4.AsSlice(), Mask: net.CIDRMask(32, 32)}
		if err := x[0].nl.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: to, Gw: router.v4.AsSlice()}); err != nil {
			return fmt.Errorf("topo: route of %s to %s through %s: %w", x[0].name, x[1].name, router.name, err)
		}
	}
	return nil
}
