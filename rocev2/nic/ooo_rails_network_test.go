// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// railName is the second interface of hosts that have two.
const railName = engines.RailName

// railHosts are two hosts with two interfaces each: eth0 of 100 Mbit/s, and rail1 of 300 Mbit/s, past a
// switch each. Both are attached, and each engine has both.
func railHosts(t *testing.T) *engines.Rails {
	t.Helper()
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
	r, detach, err := engines.AttachRail(top, engines.On(t, top, "--rate", "100M", "--policy", "mode=fixed"), "--rate", "300M", "--policy", "mode=fixed")
	t.Cleanup(func() {
		if err := detach(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// railSides are two connected queue pairs in out-of-order mode on both interfaces.
func railSides(t *testing.T, hosts []*engines.Host, second [2]netip.Addr, size int) (a, b *side) {
	t.Helper()
	var sides [2]*side
	for i, h := range hosts {
		s := newOOOSide(t, h, size)
		if err := s.qp.(verbs.RailQP).UseRails(verbs.AddressVector{Dst: second[1-i]}); err != nil {
			t.Fatal(err)
		}
		sides[i] = s
	}
	a, b = sides[0], sides[1]
	if err := connectPair(a.qp, b.qp, hosts[0].IPv4(), hosts[1].IPv4(), rocev2.PMTU1024); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// sent returns how many bytes host 0 has sent to host 1 by an interface, and its rate in bit/s.
func sent(t *testing.T, r *engines.Rails, rail int) (bytes, rate uint64) {
	t.Helper()
	s, err := r.Sent(rail)
	if err != nil {
		t.Fatal(err)
	}
	return s.Bytes, s.Rate
}

// notified writes a message with a notification, and waits until both ends know of it. It returns how long
// that took.
func notified(t *testing.T, a, b *side, id uint64) time.Duration {
	t.Helper()
	for k := range a.buf {
		a.buf[k] = byte(k) ^ byte(k>>8) ^ byte(id)
	}
	if err := b.qp.PostRecv(&verbs.RecvWR{ID: id}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	a.post(t, &verbs.SendWR{ID: id, Op: verbs.OpWriteNotify, Flags: verbs.Signaled, SGL: a.sge(0, len(a.buf)), RemoteAddr: b.va, RKey: b.key, Imm: uint32(id)})
	if c := b.poll(t); c.Status != verbs.StatusSuccess || c.Op != verbs.OpRecvNotify || c.WRID != id || c.Imm != uint32(id) {
		t.Fatalf("notification %+v", c)
	}
	if !bytes.Equal(a.buf, b.buf) {
		t.Fatalf("message %d was notified before its data was there", id)
	}
	if c := a.poll(t); c.Status != verbs.StatusSuccess || c.WRID != id {
		t.Fatalf("%+v\n%s", c, dump(a.dev))
	}
	return time.Since(start)
}

// The peer accepts packets from one address on each interface. A queue pair sends from the address that the
// kernel chose for a further interface at first, also when the kernel would choose another one later.
func TestRailKeepsItsSource(t *testing.T) {
	const size = 1 << 20
	rails := railHosts(t)
	hosts, second := rails.Hosts, rails.Second
	a, b := railSides(t, hosts, second, size)
	id := uint64(1)
	onRail := func() {
		t.Helper()
		before, _ := sent(t, rails, 1)
		for end := time.Now().Add(testkit.Patience); ; id++ {
			if n, _ := sent(t, rails, 1); n > before+4*size {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("too little is sent by the second interface\n%s", dump(a.dev))
			}
			notified(t, a, b, id)
		}
	}
	notified(t, a, b, id)
	id++
	onRail()

	nl := hosts[0].Netlink()
	link, err := nl.LinkByName(railName)
	if err != nil {
		t.Fatal(err)
	}
	other := net.IPv4(10, 54, 0, 101)
	if err := nl.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: other, Mask: net.CIDRMask(32, 32)}}); err != nil {
		t.Fatal(err)
	}
	host := net.IPNet{IP: second[1].AsSlice(), Mask: net.CIDRMask(32, 32)}
	if err := nl.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: &host, Src: other, Scope: netlink.SCOPE_LINK}); err != nil {
		t.Fatal(err)
	}
	onRail()
	for _, c := range b.dev.Counters() {
		if c.Name == "rx_wrong_peer" && c.Value != 0 {
			t.Errorf("%d packets came from another address", c.Value)
		}
	}
}

// A queue pair sends over both interfaces of its host, each paced by its own entry of the destination. One
// of them, that of the device itself, dies: all messages arrive over the other one, and are notified once.
// Then it is back.
func TestRailsNetwork(t *testing.T) {
	const size = 2 << 20
	rails := railHosts(t)
	hosts, second := rails.Hosts, rails.Second
	a, b := railSides(t, hosts, second, size)
	id := uint64(1)
	round := func(n int, what string) {
		t.Helper()
		var took time.Duration
		eth, _ := sent(t, rails, 0)
		rail, _ := sent(t, rails, 1)
		for range n {
			took += notified(t, a, b, id)
			id++
		}
		eth2, rate0 := sent(t, rails, 0)
		rail2, rate1 := sent(t, rails, 1)
		t.Logf("%s: %.0f Mbit/s of payload; %d and %d bytes by the interfaces, whose rates are %d and %d Mbit/s", what,
			float64(n*size*8)/took.Seconds()/1e6, eth2-eth, rail2-rail, rate0/1e6, rate1/1e6)
	}
	notified(t, a, b, id)
	id++
	for end := time.Now().Add(testkit.Patience); ; id++ { // until HELLO has announced the mode on the second one, too
		if n, _ := sent(t, rails, 1); n > size/4 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("nothing is sent by the second interface\n%s", dump(a.dev))
		}
		notified(t, a, b, id)
	}
	round(20, "both interfaces")

	if err := rails.Cut(0, true); err != nil {
		t.Fatal(err)
	}
	t.Logf("the message after the first interface has died took %v", notified(t, a, b, id))
	id++
	round(10, "one interface is dead")
	if err := rails.Cut(0, false); err != nil {
		t.Fatal(err)
	}
	before, _ := sent(t, rails, 0)
	for end := time.Now().Add(testkit.Patience); ; id++ {
		if n, _ := sent(t, rails, 0); n > before+size/2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the first interface is back and not used\n%s", dump(a.dev))
		}
		notified(t, a, b, id)
	}
	round(10, "both interfaces again")
	if n := b.cq.Poll(make([]verbs.Completion, 1)); n != 0 {
		t.Error("a message was notified twice")
	}
	t.Log(dump(a.dev))
}
