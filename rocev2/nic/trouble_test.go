// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/testenv/topo"
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
	a, b := connected(t, hosts, short)
	tr := startTraffic(a, b, 20000)
	tr.flows(t)
	if err := hosts[0].Dev.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.qp.Destroy(); err != nil {
		t.Errorf("Destroy after Close: %v", err)
	}
	if _, err := a.dev.CreateQP(a.pd, nic.QPInit{Type: qp.RC, SendCQ: a.cq, RecvCQ: a.cq}); !errors.Is(err, nic.ErrClosed) {
		t.Errorf("CreateQP after Close: %v", err)
	}
	for range 20 {
		hosts[0].MustOpen(t, nic.Options{})
		var wg sync.WaitGroup
		for range 4 {
			a, _ := connected(t, hosts, short)
			wg.Go(func() { _ = a.qp.Destroy() })
		}
		wg.Go(func() { _ = hosts[0].Dev.Close() })
		wg.Go(func() { // who closes as well may open again when it returns
			_ = hosts[0].Dev.Close()
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
		tr.ends(t, 5*time.Second)
		if tr.status != qp.RetryExceeded {
			t.Errorf("status %s, %v", tr.status, tr.err)
		}
	}
	for _, p := range pairs {
		if s := p[0].qp.State(); s != qp.Err {
			t.Errorf("state %s", s)
		}
	}
	time.Sleep(200 * time.Millisecond)
	if used := processorTime(t, 500*time.Millisecond); used > 150*time.Millisecond {
		t.Errorf("idle on a link that is down, the engines used %v of 500ms", used)
	}
	within(t, 3*time.Second, "Close on a link that is down", func() {
		if err := hosts[0].Dev.Close(); err != nil {
			t.Error(err)
		}
	})
}

// processorTime is what this process uses in a while.
func processorTime(t testing.TB, d time.Duration) time.Duration {
	t.Helper()
	now := func() time.Duration {
		var r unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
			t.Fatal(err)
		}
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	before := now()
	time.Sleep(d)
	return now() - before
}

// After the link was down and up again, new connections work.
func TestLinkFlap(t *testing.T) {
	hosts := twoHosts(t, "--policy", "mode=fixed")
	a, b := connected(t, hosts, func(x *nic.Attr) { x.Timeout, x.RetryCnt = 14, 7 })
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
