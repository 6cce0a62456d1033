// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// addAddr adds an address to an interface of a host.
func addAddr(t *testing.T, h *topo.Host, ifname, prefix string) netip.Addr {
	t.Helper()
	p := netip.MustParsePrefix(prefix)
	l, err := h.Netlink().LinkByName(ifname)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Netlink().AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}); err != nil {
		t.Fatal(err)
	}
	return p.Addr()
}

// waitOwn waits until the agent of an attachment knows that an address is this host's. Until then
// packets to and from it pass untouched.
func waitOwn(t *testing.T, a *loader.Attachment, addr netip.Addr) {
	t.Helper()
	testkit.Eventually(t, "own address "+addr.String(), func() bool {
		own, err := a.OwnAddresses()
		if err != nil {
			t.Fatal(err)
		}
		defer own.Close()
		return own.Has(addr)
	})
}

// Two hosts with two addresses each. Every pair of addresses has stamps with the right token,
// feedback and decisions, whether the agent answers HELLO (veth) or XDP does (macvlan). Addresses
// are added before the attach, and while it is in force.
func TestSecondAddress(t *testing.T) {
	topo.RequireRoot(t)
	for _, ifname := range []string{topo.IfName, "mv0"} {
		t.Run(ifname, func(t *testing.T) {
			top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
			var att [2]*loader.Attachment
			var addr [2][2]netip.Addr
			for i, h := range top.Hosts() {
				if ifname != topo.IfName {
					addMacvlan(t, h, ifname)
					// Otherwise eth0 answers ARP for the addresses of the macvlan, too.
					if err := h.Sysctl("net/ipv4/conf/all/arp_ignore", "1"); err != nil {
						t.Fatal(err)
					}
				}
				own := [2]string{"10.9.0.1/24", "10.9.0.11/24"}
				if i == 1 {
					own = [2]string{"10.9.0.2/24", "10.9.0.12/24"}
				}
				addr[i][0] = addAddr(t, h, ifname, own[0])
				att[i] = attachOn(t, h, ifname)
				addr[i][1] = addAddr(t, h, ifname, own[1])
				waitOwn(t, att[i], addr[i][1])
			}
			var ep [2][2]*load.Endpoint
			for i, h := range top.Hosts() {
				for j, a := range addr[i] {
					var err error
					if ep[i][j], err = load.Open(load.Config{Local: a, Do: h.Do}); err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { ep[i][j].Close() })
				}
			}
			send := func(from, to, packets int) {
				t.Helper()
				if _, err := ep[0][from].Send(t.Context(), load.Flow{To: addr[1][to], Bytes: uint64(packets) * 1024, GiveUp: testkit.Patience}); err != nil {
					t.Fatal(err)
				}
			}
			pairs := [][2]int{{0, 0}, {1, 1}, {0, 1}, {1, 0}}
			for _, p := range pairs {
				testkit.Eventually(t, "stamps and an echo on both hosts", func() bool { // HELLO is repeated while there is traffic
					send(p[0], p[1], 20)
					return stamped(att[0], addr[1][p[1]]) && stamped(att[1], addr[0][p[0]])
				})
			}
			// Each direction has stamps: packets of one pair add nothing to the packets without.
			for _, p := range pairs {
				testkit.Eventually(t, "stamps between all pairs", func() bool {
					before, back := mustRow(t, att[1], addr[0][p[0]]), mustRow(t, att[0], addr[1][p[1]])
					send(p[0], p[1], 200)
					after, answers := mustRow(t, att[1], addr[0][p[0]]), mustRow(t, att[0], addr[1][p[1]])
					return after.RxUnstamped == before.RxUnstamped && answers.RxUnstamped == back.RxUnstamped
				})
			}
			for i, a := range att {
				for _, name := range []string{"hello_ack_forged", "rx_token_wrong", "rx_forwarded", "tx_other_source"} {
					if n := stat(t, a, name); n != 0 {
						t.Errorf("host %d: %s %d", i+1, name, n)
					}
				}
			}
			for _, to := range addr[1] {
				testkit.Eventually(t, "decisions for "+to.String(), func() bool {
					send(0, 0, 100)
					send(1, 1, 100)
					return mustRow(t, att[0], to).Policy.Decisions > 0
				})
			}
		})
	}
}

// addMacvlan adds a macvlan to a host's eth0 and brings it up.
func addMacvlan(t *testing.T, h *topo.Host, name string) netlink.Link {
	t.Helper()
	l := &netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Name: name, ParentIndex: eth0(t, h).Attrs().Index}, Mode: netlink.MACVLAN_MODE_BRIDGE}
	if err := h.Netlink().LinkAdd(l); err != nil {
		t.Fatal(err)
	}
	if err := h.Netlink().LinkSetUp(l); err != nil {
		t.Fatal(err)
	}
	return l
}

// attachOn attaches an interface of a host, until the test ends.
func attachOn(t *testing.T, h *topo.Host, ifname string) *loader.Attachment {
	t.Helper()
	n := newNode(t, h)
	n.must(t, "attach", ifname)
	t.Cleanup(func() {
		if out, err := n.try("detach", ifname); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		os.Remove(n.pins)
	})
	a, err := loader.Open(ifname, n.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// A macvlan of an attached interface sends past the program of its parent: it is neither paced nor
// measured there.
func TestMacvlanPassesParent(t *testing.T) {
	topo.RequireRoot(t)
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
	parent, peer := top.Host(1), top.Host(2)
	att := attachOn(t, parent, topo.IfName)
	addMacvlan(t, parent, "mv0")
	from, to := addAddr(t, parent, "mv0", "10.9.0.1/24"), addAddr(t, peer, topo.IfName, "10.9.0.2/24")
	attachOn(t, peer, topo.IfName)
	here, err := load.Open(load.Config{Local: from, Do: parent.Do})
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	there, err := load.Open(load.Config{Local: to, Do: peer.Do})
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if _, err := here.Send(t.Context(), load.Flow{To: to, Bytes: 100 * 1024, GiveUp: testkit.Patience}); err != nil {
		t.Fatal(err)
	}
	if _, found, err := att.Lookup(to); found || err != nil {
		t.Errorf("the parent has an entry of the peer (%v)", err)
	}
	if stat(t, att, "tx_other_source") < 100 || stat(t, att, "rx_other_host") == 0 {
		t.Errorf("%d packets left, %d arrived", stat(t, att, "tx_other_source"), stat(t, att, "rx_other_host"))
	}
}

// Queue pairs of an engine at two addresses of each host: every packet has the token of its own
// source.
func TestSecondAddressOfEngine(t *testing.T) {
	topo.RequireRoot(t)
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true})
	var addr [2][2]netip.Addr
	for i, h := range top.Hosts() {
		addr[i] = [2]netip.Addr{h.IPv4(), addAddr(t, h, topo.IfName, []string{"10.9.0.1/24", "10.9.0.2/24"}[i])}
	}
	hosts := engines.On(t, top)
	from, to := newWriters(t, hosts[0], 4), newWriters(t, hosts[1], 4)
	att := [2]*loader.Attachment{hosts[0].Attachment(t), hosts[1].Attachment(t)}
	pairs := [][2]int{{0, 0}, {1, 1}, {1, 0}, {0, 1}}
	write := func(i int) {
		t.Helper()
		x, y := from[i], to[i]
		if err := x.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{{Addr: x.mr.VA(), Len: 64, LKey: x.mr.LKey()}}, RemoteAddr: y.mr.VA(), RKey: y.mr.RKey()}); err != nil {
			t.Fatal(err)
		}
		if c, err := engines.PollOne(x.cq, testkit.Patience); err != nil || c.Status != verbs.StatusSuccess {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	for i, p := range pairs {
		connect(t, from[i].qp, to[i].qp, addr[0][p[0]], addr[1][p[1]])
	}
	for i, p := range pairs {
		at, back := addr[0][p[0]], addr[1][p[1]]
		testkit.Eventually(t, "an entry on both hosts", func() bool { // an engine makes it some time after the packet
			write(i)
			return hasRow(t, att[1], at) && hasRow(t, att[0], back)
		})
		testkit.Eventually(t, "stamps of both directions", func() bool {
			before, answers := mustRow(t, att[1], at), mustRow(t, att[0], back)
			for range 20 {
				write(i)
			}
			after, more := mustRow(t, att[1], at), mustRow(t, att[0], back)
			return after.RxPackets > before.RxPackets && after.RxUnstamped == before.RxUnstamped && more.RxUnstamped == answers.RxUnstamped && more.LastEchoT1Ns != 0
		})
	}
	for i, a := range att {
		for _, name := range []string{"hello_ack_forged", "rx_token_wrong"} {
			if n := stat(t, a, name); n != 0 {
				t.Errorf("host %d: %s %d", i+1, name, n)
			}
		}
	}
}
