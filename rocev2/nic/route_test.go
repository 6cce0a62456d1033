// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/testenv/topo"
)

// While the kernel is asked about thousands of paths because a route has changed, who
// gives one back waits, and the engine works on.
func TestRouteChangeWithManyPaths(t *testing.T) {
	const paths, wait = 2000, 20 * time.Millisecond
	hosts := twoHosts(t, "--policy", "mode=fixed")
	a, b := connected(t, hosts, short)
	nl := hosts[0].Netlink()
	link, err := nl.LinkByName(topo.IfName)
	if err != nil {
		t.Fatal(err)
	}
	addRoute := func(second byte) {
		r := netlink.Route{LinkIndex: link.Attrs().Index, Gw: hosts[1].IPv4().AsSlice(),
			Dst: &net.IPNet{IP: net.IPv4(10, second, 0, 0), Mask: net.CIDRMask(16, 32)}}
		if err := nl.RouteAdd(&r); err != nil {
			t.Fatal(err)
		}
	}
	addRoute(200)
	var handles []*nic.AH
	for i := range paths {
		dst := netip.AddrFrom4([4]byte{10, 200, byte(i >> 8), byte(i)})
		ah, err := a.dev.CreateAH(a.pd, netip.Addr{}, dst, nic.Flow{})
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, ah)
	}
	tr := startTraffic(a, b, 64)
	tr.flows(t)
	addRoute(201)
	var longest time.Duration
	var meanwhile int64
	for i := range 500 {
		before, start := tr.ok.Load(), time.Now()
		if err := handles[i].Destroy(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > longest {
			longest, meanwhile = took, tr.ok.Load()-before
		}
		time.Sleep(100 * time.Microsecond)
	}
	t.Logf("a handle waited for %v, in which %d messages were sent", longest, meanwhile)
	if longest < wait {
		t.Errorf("no handle waited for %v: the test shows nothing", wait)
	} else if meanwhile < 50 {
		t.Errorf("in %v only %d messages: the engine waited as well", longest, meanwhile)
	}
	if err := a.qp.Modify(nic.Attr{Attr: qp.Attr{State: qp.Err}}, qp.MaskState); err != nil {
		t.Fatal(err)
	}
	tr.ends(t, 5*time.Second)
}
