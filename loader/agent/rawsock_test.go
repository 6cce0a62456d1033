// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// A renamed interface is the same interface: control packets leave by it, also if another one
// has its former name.
func TestSendAfterRename(t *testing.T) {
	onHost(t, func(l netlink.Link) {
		s, err := openRawSockets(l.Attrs().Index)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		rename(t, l, "renamed0")
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: topo.IfName}, PeerName: "other0"}); err != nil {
			t.Fatal(err)
		}
		addrs, err := netlink.AddrList(l, netlink.FAMILY_V4)
		if err != nil || len(addrs) == 0 {
			t.Fatalf("%v, %v", addrs, err)
		}
		own, _ := netip.AddrFromSlice(addrs[0].IP.To4())
		peer := own.Next()
		src, err := s.source(peer)
		if err != nil || src != own {
			t.Errorf("source of packets to %s: %s, %v; want %s", peer, src, err, own)
		}
		if mtu := s.pathMTU(peer); mtu != l.Attrs().MTU {
			t.Errorf("the path to %s has an MTU of %d, the interface of %d", peer, mtu, l.Attrs().MTU)
		}
		if err := s.send(netip.Addr{}, peer, func(b []byte, src, dst netip.Addr) (int, error) {
			return rocev2.BuildHello(b, src, dst, rocev2.Hello{})
		}); err != nil {
			t.Error(err)
		}
	})
}

// The RDMA device is found by the present name of the interface.
func TestRenameIsFollowed(t *testing.T) {
	a := bare()
	a.iface.Name, a.cfg.Mtu = "eth0", 1500
	a.linkChanged(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "eth7", MTU: 1500}})
	if a.iface.Name != "eth7" {
		t.Errorf("the name is %s", a.iface.Name)
	}
}

// rename renames an interface, and keeps its addresses.
func rename(t *testing.T, l netlink.Link, name string) {
	t.Helper()
	for _, err := range []error{netlink.LinkSetDown(l), netlink.LinkSetName(l, name), netlink.LinkSetUp(l)} {
		if err != nil {
			t.Fatal(err)
		}
	}
}
