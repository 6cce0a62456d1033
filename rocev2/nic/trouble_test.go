// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// within fails the test if f takes longer.
func within(t testing.TB, limit time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("%s: not done after %v", what, limit)
	}
}

// What is destroyed after its device was closed, or while that happens, gives an error
// or none, and nothing worse.
func TestDestroyAfterClose(t *testing.T) {
	hosts := twoHosts(t, "--policy", "mode=fixed")
	a, b := connected(t, hosts, patient)
	tr := startTraffic(a, b, 20000)
	tr.flows(t)
	if err := hosts[0].Dev.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.qp.Destroy(); err != nil {
		t.Errorf("Destroy after Close: %v", err)
	}
	if _, err := a.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: a.cq, RecvCQ: a.cq}); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("CreateQP after Close: %v", err)
	}
	for range 20 {
		dev := hosts[0].MustOpen(t, nic.Options{})
		var wg sync.WaitGroup
		for range 4 {
			a, _ := connected(t, hosts, patient)
			wg.Go(func() { _ = a.qp.Destroy() })
		}
		wg.Go(func() { _ = dev.Close() })
		wg.Go(func() { // who closes as well may open again when it returns
			_ = dev.Close()
			if d, err := hosts[0].Open(nic.Options{}); err != nil {
				t.Errorf("after Close: %v", err)
			} else {
				_ = d.Close()
			}
		})
		wg.Wait()
	}
}

// The link goes down under traffic: the peer is given up as if it were silent, the
// engine does not burn a processor meanwhile, and the device can be closed.
func TestLinkDown(t *testing.T) {
	hosts := twoHosts(t, "--policy", "mode=fixed")
	var pairs [][2]*side
	var trs []*traffic
	for range 4 {
		a, b := connected(t, hosts, short)
		pairs, trs = append(pairs, [2]*side{a, b}), append(trs, startTraffic(a, b, 60000))
	}
	for _, tr := range trs {
		tr.flows(t)
	}
	nl := hosts[0].Netlink()
	link, err := nl.LinkByName(topo.IfName)
	if err != nil {
		t.Fatal(err)
	}
	set := func(f func(netlink.Link) error) {
		t.Helper()
		if err := f(link); err != nil {
			t.Fatal(err)
		}
	}
	set(nl.LinkSetDown)
	for _, tr := range trs {
		tr.ends(t, testkit.Patience)
		if tr.status != verbs.StatusRetryExceeded {
			t.Errorf("status %s, %v", tr.status, tr.err)
		}
	}
	for _, p := range pairs {
		if s := p[0].qp.State(); s != verbs.StateErr {
			t.Errorf("state %s", s)
		}
	}
	// An engine that burns a processor does so all the time, the runtime now and then.
	const most = 0.3
	used := 1.
	for start := time.Now(); used > most && time.Since(start) < testkit.Patience; {
		used = processorShare(t, 500*time.Millisecond)
	}
	if used > most {
		t.Errorf("idle on a link that is down, the engines use %.2f processors", used)
	}
	within(t, testkit.Patience, "Close on a link that is down", func() {
		if err := hosts[0].Dev.Close(); err != nil {
			t.Error(err)
		}
	})
}

// processorShare is how much of a processor this process uses for a while.
func processorShare(t testing.TB, d time.Duration) float64 {
	t.Helper()
	now := func() time.Duration {
		var r unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
			t.Fatal(err)
		}
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	start, before := time.Now(), now()
	time.Sleep(d)
	return (now() - before).Seconds() / time.Since(start).Seconds()
}

// After the link was down and up again, new connections work.
func TestLinkFlap(t *testing.T) {
	hosts := twoHosts(t, "--policy", "mode=fixed")
	a, b := connected(t, hosts, patient)
	tr := startTraffic(a, b, 60000)
	tr.flows(t)
	nl := hosts[0].Netlink()
	link, err := nl.LinkByName(topo.IfName)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := nl.LinkSetDown(link); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		if err := nl.LinkSetUp(link); err != nil {
			t.Fatal(err)
		}
		tr.flows(t)
	}
}

// The MTU changes under an open device: what is refused says so, and what was agreed on
// before is not sent where it does not fit.
func TestMTUChanged(t *testing.T) {
	hosts := twoHosts(t, "--policy", "mode=fixed")
	mtu := func(n int) {
		t.Helper()
		for _, h := range hosts {
			link, err := h.Netlink().LinkByName(topo.IfName)
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Netlink().LinkSetMTU(link, n); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Eventually(t, fmt.Sprintf("an MTU of %d", n), func() bool { return hosts[0].Dev.Link().MTU == n })
	}
	mtu(9000)
	a, b := newSide(t, hosts[0], verbs.RC, 1<<16), newSide(t, hosts[1], verbs.RC, 1<<16)
	err := engines.ConnectAttr(a.qp, b.qp, hosts[0].IPv4(), hosts[1].IPv4(), func(x *verbs.Attr) { x.PMTU = rocev2.PMTU4096 })
	if err == nil || !strings.Contains(err.Error(), "open the device again") {
		t.Errorf("a PMTU that the device's frames have no room for: %v", err)
	}
	mtu(1500)
	a, b = connected(t, hosts, short)
	tr := startTraffic(a, b, 20000)
	tr.flows(t)
	mtu(1000)
	tr.ends(t, testkit.Patience)
	if n := counter(hosts[0].Dev, "tx_no_room"); n == 0 || tr.status != verbs.StatusRetryExceeded {
		t.Errorf("1024 bytes on an MTU of 1000: %d packets were counted, status %s", n, tr.status)
	}
}

// datagrams is a queue pair of UD on the first host, and a datagram of n bytes to one on
// the second.
func datagrams(t *testing.T, hosts []*engines.Host, n int) (*side, verbs.SendWR) {
	t.Helper()
	a, b := newSide(t, hosts[0], verbs.UD, 1<<16), newSide(t, hosts[1], verbs.UD, 1<<16)
	if err := engines.Connect(a.qp, b.qp, hosts[0].IPv4(), hosts[1].IPv4(), rocev2.PMTU1024); err != nil {
		t.Fatal(err)
	}
	ah, err := a.pd.CreateAH(verbs.AddressVector{Src: hosts[0].IPv4(), Dst: hosts[1].IPv4()})
	if err != nil {
		t.Fatal(err)
	}
	return a, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: a.sge(0, n), AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: 7}
}

// A datagram that the way to its receiver cannot carry is refused when it is posted.
func TestDatagramTooLong(t *testing.T) {
	hosts := twoHosts(t, "--policy", "mode=fixed")
	a, wr := datagrams(t, hosts, 1025)
	if err := a.qp.PostSend(&wr); !errors.Is(err, verbs.ErrTooLong) {
		t.Errorf("1025 bytes on an MTU of 1500: %v", err)
	}
	wr.SGL = a.sge(0, 1024)
	if err := a.qp.PostSend(&wr); err != nil {
		t.Error(err)
	}
}

// An application that has seen a completion has room for another datagram.
func TestDatagramRoom(t *testing.T) {
	hosts := twoHosts(t, "--rate", "20M", "--policy", "mode=fixed") // so that some wait while others leave
	a, wr := datagrams(t, hosts, 64)
	const room = 128 // as queue pairs are made
	for i := range room {
		if err := a.qp.PostSend(&wr); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	done := make([]verbs.Completion, room)
	for seen := 0; seen < 5000; {
		n := a.cq.Poll(done)
		for i := range n {
			if err := a.qp.PostSend(&wr); err != nil {
				t.Fatalf("completion %d was seen: %v", seen+i, err)
			}
		}
		seen += n
	}
}

// A connection keeps the source address that the kernel chose for it, whatever the
// kernel would choose later.
func TestSourceStays(t *testing.T) {
	hosts := twoHosts(t, "--policy", "mode=fixed")
	a, b := newSide(t, hosts[0], verbs.RC, 1<<16), newSide(t, hosts[1], verbs.RC, 1<<16)
	attr := verbs.DefaultAttr()
	patient(&attr)
	x, y := verbs.Endpoint{Addr: hosts[0].IPv4(), QPN: a.qp.QPN()}, verbs.Endpoint{Addr: hosts[1].IPv4(), QPN: b.qp.QPN()}
	unnamed := x
	unnamed.Addr = netip.Addr{} // the kernel's choice
	err := errors.Join(verbs.Connect(a.qp, unnamed, y, attr), verbs.Connect(b.qp, y, x, attr))
	if err != nil {
		t.Fatal(err)
	}
	tr := startTraffic(a, b, 20000)
	tr.flows(t)
	nl := hosts[0].Netlink()
	link, err := nl.LinkByName(topo.IfName)
	if err != nil {
		t.Fatal(err)
	}
	other := netip.MustParsePrefix("10.250.0.9/32")
	if err := nl.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: other.Addr().AsSlice(), Mask: net.CIDRMask(32, 32)}}); err != nil {
		t.Fatal(err)
	}
	peer := &net.IPNet{IP: hosts[1].IPv4().AsSlice(), Mask: net.CIDRMask(32, 32)}
	if err := nl.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: peer, Src: other.Addr().AsSlice(), Scope: netlink.SCOPE_LINK}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	tr.flows(t)
}

// Datagrams that cannot leave complete all the same, each with its own number: nobody
// says that they arrive.
func TestDatagramsWithoutPath(t *testing.T) {
	hosts := twoHosts(t, "--policy", "mode=fixed")
	a, b := newSide(t, hosts[0], verbs.UD, 1<<16), newSide(t, hosts[1], verbs.UD, 1<<16)
	if err := engines.Connect(a.qp, b.qp, hosts[0].IPv4(), hosts[1].IPv4(), rocev2.PMTU1024); err != nil {
		t.Fatal(err)
	}
	ah, err := a.pd.CreateAH(verbs.AddressVector{Dst: hosts[1].IPv4()})
	if err != nil {
		t.Fatal(err)
	}
	nl := hosts[0].Netlink()
	link, err := nl.LinkByName(topo.IfName)
	if err != nil {
		t.Fatal(err)
	}
	send := func(id uint64) {
		t.Helper()
		wr := verbs.SendWR{ID: id, Op: verbs.OpSend, Flags: verbs.Signaled, SGL: a.sge(0, 100), AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: 7}
		if err := a.qp.PostSend(&wr); err != nil {
			t.Fatal(err)
		}
		w, err := engines.PollOne(a.cq, testkit.Patience)
		if err != nil || w.WRID != id || w.Status != verbs.StatusSuccess {
			t.Errorf("message %d: %v, %d %s", id, err, w.WRID, w.Status)
		}
	}
	send(1)
	if err := nl.LinkSetDown(link); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	send(2)
	if err := nl.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	send(3)
}
