// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/engine"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// railName is the second interface of hosts that have two.
const railName = "rail1"

// railHosts are two hosts with two interfaces each: eth0, past a switch, of 100 Mbit/s, and rail1, a cable
// of 300 Mbit/s. Both are attached, and each engine has both.
func railHosts(t *testing.T) (top *topo.Topology, hosts []*engines.Host, second [2]netip.Addr) {
	t.Helper()
	top = topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
	hosts = engines.On(t, top, "--rate", "100M", "--policy", "mode=fixed")
	ends, err := topo.Cable(top.Host(1), top.Host(2), topo.CableSpec{Name: railName})
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range hosts {
		second[i] = netip.AddrFrom4([4]byte{10, 54, 0, byte(i + 1)})
		link, err := h.Netlink().LinkByIndex(ends[i].Index)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Netlink().AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: second[i].AsSlice(), Mask: net.CIDRMask(24, 32)}}); err != nil {
			t.Fatal(err)
		}
		if out, err := h.Product("attach", railName, "--rate", "300M", "--policy", "mode=fixed"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Cleanup(func() {
			if h.Dev != nil {
				_ = h.Dev.Close()
			}
			if out, err := h.Product("detach", railName); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
		if err := h.Do(func() (err error) {
			h.Dev, err = engine.OpenRails(topo.IfName, []string{railName}, h.LoaderOptions(), nic.Options{})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return top, hosts, second
}

// railSides are two connected queue pairs in out-of-order mode on both interfaces.
func railSides(t *testing.T, hosts []*engines.Host, second [2]netip.Addr, size int) (a, b *side) {
	t.Helper()
	var sides [2]*side
	for i, h := range hosts {
		s := newOrderSide(t, h, size)
		if err := s.qp.(verbs.RailQP).UseRails(verbs.AddressVector{Dst: second[1-i]}); err != nil {
			t.Fatal(err)
		}
		sides[i] = s
	}
	a, b = sides[0], sides[1]
	if err := engines.Connect(a.qp, b.qp, hosts[0].IPv4(), hosts[1].IPv4(), rocev2.PMTU1024); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// sent returns how many bytes host h has sent to the peer's address, by the entry of this destination on
// an interface, and its rate in bit/s.
func sent(t *testing.T, h *engines.Host, ifname string, to netip.Addr) (sent, rate uint64) {
	t.Helper()
	a, err := loader.Open(ifname, h.LoaderOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	row, found, err := a.Lookup(to)
	if err != nil || !found {
		t.Fatalf("%s has no destination %s: %v", ifname, to, err)
	}
	return row.Regs.TxBytes, row.Regs.RateBps
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
	_, hosts, second := railHosts(t)
	a, b := railSides(t, hosts, second, size)
	id := uint64(1)
	onRail := func() {
		t.Helper()
		before, _ := sent(t, hosts[0], railName, second[1])
		for end := time.Now().Add(patience); ; id++ {
			if n, _ := sent(t, hosts[0], railName, second[1]); n > before+4*size {
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
	top, hosts, second := railHosts(t)
	a, b := railSides(t, hosts, second, size)
	id := uint64(1)
	round := func(n int, what string) {
		t.Helper()
		var took time.Duration
		eth, _ := sent(t, hosts[0], topo.IfName, hosts[1].IPv4())
		rail, _ := sent(t, hosts[0], railName, second[1])
		for range n {
			took += notified(t, a, b, id)
			id++
		}
		eth2, rate0 := sent(t, hosts[0], topo.IfName, hosts[1].IPv4())
		rail2, rate1 := sent(t, hosts[0], railName, second[1])
		t.Logf("%s: %.0f Mbit/s of payload; %d and %d bytes by the interfaces, whose rates are %d and %d Mbit/s", what,
			float64(n*size*8)/took.Seconds()/1e6, eth2-eth, rail2-rail, rate0/1e6, rate1/1e6)
	}
	notified(t, a, b, id)
	id++
	for end := time.Now().Add(patience); ; id++ { // until HELLO has announced the mode on the second one, too
		if n, _ := sent(t, hosts[0], railName, second[1]); n > size/4 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("nothing is sent by the second interface\n%s", dump(a.dev))
		}
		notified(t, a, b, id)
	}
	round(20, "both interfaces")

	port, err := top.Switch().Netlink().LinkByName(top.Host(2).Port().Name())
	if err != nil {
		t.Fatal(err)
	}
	if err := top.Switch().Netlink().LinkSetNoMaster(port); err != nil { // the carrier stays
		t.Fatal(err)
	}
	t.Logf("the message after the first interface has died took %v", notified(t, a, b, id))
	id++
	round(10, "one interface is dead")
	bridge, err := top.Switch().Netlink().LinkByName("br0")
	if err != nil {
		t.Fatal(err)
	}
	if err := top.Switch().Netlink().LinkSetMaster(port, bridge); err != nil {
		t.Fatal(err)
	}
	before, _ := sent(t, hosts[0], topo.IfName, hosts[1].IPv4())
	for end := time.Now().Add(patience); ; id++ {
		if n, _ := sent(t, hosts[0], topo.IfName, hosts[1].IPv4()); n > before+size/2 {
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
