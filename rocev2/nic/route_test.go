// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// While the kernel is asked about thousands of paths because a route has changed, who
// gives one back waits, and the engine works on.
func TestRouteChangeWithManyPaths(t *testing.T) {
	const paths, rounds, inFlight = 2000, 8, 16 // as startTraffic has
	hosts := twoHosts(t, "--policy", "mode=fixed")
	a, b := connected(t, hosts, patient)
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
	var handles []verbs.AH
	for i := range paths {
		dst := netip.AddrFrom4([4]byte{10, 200, byte(i >> 8), byte(i)})
		ah, err := a.pd.CreateAH(verbs.AddressVector{Dst: dst})
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, ah)
	}
	tr := startTraffic(a, b, 64)
	tr.flows(t)
	// How long a handle waits is the kernel's affair. In the longest wait of a round, more
	// messages than were in flight must have gone; an engine that waits as well does not get
	// there in any round.
	worked := false
	for round := range byte(rounds) {
		addRoute(201 + round)
		var longest time.Duration
		var meanwhile int64
		for range paths / rounds {
			before, start := tr.ok.Load(), time.Now()
			if err := handles[0].Destroy(); err != nil {
				t.Fatal(err)
			}
			handles = handles[1:]
			if took := time.Since(start); took > longest {
				longest, meanwhile = took, tr.ok.Load()-before
			}
			time.Sleep(100 * time.Microsecond)
		}
		t.Logf("a handle waited for %v, in which %d messages were sent", longest, meanwhile)
		if worked = meanwhile > 2*inFlight; worked {
			break
		}
	}
	if !worked {
		t.Error("while a handle waited, so did the engine")
	}
	if err := a.qp.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState); err != nil {
		t.Fatal(err)
	}
	tr.ends(t, testkit.Patience)
}
