// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// What changes while no agent runs, the next agent applies.
func TestInterfaceChangedWithoutAgent(t *testing.T) {
	onAttached(t, loader.Options{}, func(t *testing.T, l netlink.Link, o loader.Options) {
		mac := [6]byte{2, 0x11, 0x22, 0x33, 0x44, 0x55}
		if err := netlink.LinkSetHardwareAddr(l, net.HardwareAddr(mac[:])); err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetMTU(l, 1234); err != nil {
			t.Fatal(err)
		}
		a := mustOpen(t, o)
		w, err := watchLink(a.iface.Index)
		if err != nil {
			t.Fatal(err)
		}
		defer w.close()
		if l, ok := next(t, w); ok && l != nil {
			a.linkChanged(l)
		}
		if a.cfg.Mtu != 1234 || a.cfg.Mac != mac {
			t.Errorf("MTU %d, MAC address %x", a.cfg.Mtu, a.cfg.Mac)
		}
	})
}

// The kernel drops reports of changes if they are not read in time. The agent subscribes again,
// and gets the present state.
func TestReportsOfChangesLost(t *testing.T) {
	onHost(t, func(l netlink.Link) {
		w, err := watchLink(l.Attrs().Index)
		if err != nil {
			t.Fatal(err)
		}
		defer w.close()
		const changes, last = 4000, 1300 // more than a socket's buffer holds
		for i := range changes {
			if err := netlink.LinkSetMTU(l, last+1+i%2); err != nil {
				t.Fatal(err)
			}
		}
		for mtu, lost := 0, false; mtu != last || !lost; {
			if l, ok := next(t, w); ok {
				mtu = l.Attrs().MTU
				continue
			}
			// This change is not reported to the subscription that has ended.
			if err := netlink.LinkSetMTU(l, last); err != nil {
				t.Fatal(err)
			}
			if err := w.subscribe(); err != nil {
				t.Fatal(err)
			}
			lost = true
		}
		if err := netlink.LinkDel(l); err != nil {
			t.Fatal(err)
		}
		for deleted := false; !deleted; {
			l, ok := next(t, w)
			if !ok {
				t.Fatal("the subscription ended before the deletion was reported")
			}
			deleted = l == nil
		}
	})
}

// An interface that is deleted between two subscriptions is reported as deleted.
func TestDeletedBeforeSubscription(t *testing.T) {
	onHost(t, func(l netlink.Link) {
		if err := netlink.LinkDel(l); err != nil {
			t.Fatal(err)
		}
		w, err := watchLink(l.Attrs().Index)
		if err != nil {
			t.Fatal(err)
		}
		defer w.close()
		if l, ok := next(t, w); !ok || l != nil {
			t.Errorf("%v, subscribed %v", l, ok)
		}
	})
}

// next returns the next report.
func next(t *testing.T, w *linkWatch) (l netlink.Link, ok bool) {
	t.Helper()
	select {
	case l, ok = <-w.changes:
	case <-time.After(testkit.Patience):
		t.Fatal("nothing is reported")
	}
	return l, ok
}

// onHost runs a test in the network namespace of a host.
func onHost(t *testing.T, f func(l netlink.Link)) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(1)})
	if err := top.Host(1).Do(func() error {
		f(link(t))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T) netlink.Link {
	t.Helper()
	l, err := netlink.LinkByName(topo.IfName)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
