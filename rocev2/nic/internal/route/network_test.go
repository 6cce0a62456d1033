// SPDX-License-Identifier: Apache-2.0

package route

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// log gathers events.
type log struct {
	mu     sync.Mutex
	events []Event
}

func (l *log) add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *log) has(match func(Event) bool) func() bool {
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.ContainsFunc(l.events, match)
	}
}

func open(t *testing.T, h *topo.Host, opts Options) *Table {
	t.Helper()
	var table *Table
	err := h.Do(func() (err error) {
		table, err = Open(topo.IfName, opts)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := table.Close(); err != nil {
			t.Error(err)
		}
	})
	return table
}

func resolve(t *testing.T, table *Table, dst netip.Addr) *Path {
	t.Helper()
	p, err := table.Resolve(dst)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Release)
	return p
}

func wait(t *testing.T, p *Path) (*State, error) {
	t.Helper()
	ctx := testkit.Context(t)
	s, err := p.Wait(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	return s, err
}

func mac(h net.HardwareAddr) [6]byte { return [6]byte(h) }

// sh runs ip(8)-like steps in the host's namespace.
func sh(t *testing.T, h *topo.Host, line string) {
	t.Helper()
	f := strings.Fields(line)
	if out, err := h.Command(f[0], f[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
}

// impatient makes the host's kernel give up on neighbours after 200 ms.
func impatient(t *testing.T, h *topo.Host) {
	t.Helper()
	for _, family := range []string{"ipv4", "ipv6"} {
		for key, value := range map[string]string{
			"retrans_time_ms": "100", "mcast_solicit": "2", "ucast_solicit": "2", "delay_first_probe_time": "1", "base_reachable_time_ms": "2000",
		} {
			if err := h.Sysctl("net/"+family+"/neigh/eth0/"+key, value); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// patient makes the host's kernel ask for neighbours for a minute or longer: they answer, but a busy machine may be late.
func patient(t *testing.T, h *topo.Host) {
	t.Helper()
	for _, family := range []string{"ipv4", "ipv6"} {
		if err := h.Sysctl("net/"+family+"/neigh/eth0/mcast_solicit", "600"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestResolve: both families, with nothing known beforehand.
func TestResolve(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
	a, b := top.Host(1), top.Host(2)
	patient(t, a)
	table := open(t, a, Options{ResolveTimeout: testkit.Patience})
	for _, c := range []struct {
		src, dst  netip.Addr
		etherType [2]byte
	}{
		{a.IPv4(), b.IPv4(), [2]byte{0x08, 0}},
		{a.IPv6(), b.IPv6(), [2]byte{0x86, 0xdd}},
	} {
		start := time.Now()
		p := resolve(t, table, c.dst)
		s, err := wait(t, p)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %v", c.dst, time.Since(start))
		want := State{
			Src: c.src, Dst: c.dst, NextHop: c.dst, SrcMAC: mac(a.MAC()), DstMAC: mac(b.MAC()),
			MTU: 1500, PMTU: rocev2.PMTU1024,
			Ether: [14]byte(slices.Concat(b.MAC(), a.MAC(), c.etherType[:])),
		}
		if *s != want {
			t.Errorf("%s:\n%+v, want\n%+v", c.dst, *s, want)
		}
		if p.Current() != s {
			t.Errorf("Current and Wait differ")
		}
		again := resolve(t, table, netip.AddrFrom16(c.dst.As16())) // as a GID
		if again != p {
			t.Error("the same destination gave another path")
		}
	}
}

// WouldAsk is true for neighbours that the kernel does not know, and asks none.
func TestWouldAsk(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
	a, b := top.Host(1), top.Host(2)
	patient(t, a)
	table := open(t, a, Options{ResolveTimeout: testkit.Patience})
	for range 2 { // the first call has not asked
		if !table.WouldAsk(a.IPv4(), b.IPv4()) || !table.WouldAsk(a.IPv6(), b.IPv6()) {
			t.Fatal("the neighbour is known")
		}
	}
	for _, dst := range []netip.Addr{a.IPv4(), netip.MustParseAddr("203.0.113.1")} {
		if table.WouldAsk(a.IPv4(), dst) {
			t.Errorf("%s is no neighbour", dst)
		}
	}
	p, err := table.ResolveFrom(a.IPv4(), b.IPv4())
	if err != nil {
		t.Fatal(err)
	}
	_, err = wait(t, p)
	p.Release()
	if err != nil || table.WouldAsk(a.IPv4(), b.IPv4()) {
		t.Errorf("%v, or the kernel does not know the neighbour that has answered", err)
	}
}

// TestPermanentNeighbour: it is used, and stays permanent.
func TestPermanentNeighbour(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true})
	a, b := top.Host(1), top.Host(2)
	table := open(t, a, Options{})
	for _, dst := range []netip.Addr{b.IPv4(), b.IPv6()} {
		p := resolve(t, table, dst)
		if s := p.Current(); s.Err != nil || s.DstMAC != mac(b.MAC()) {
			t.Errorf("%s at once: %+v", dst, s)
		}
		n, err := table.kernel.neighbour(dst)
		if err != nil || n.state != netlink.NUD_PERMANENT {
			t.Errorf("%s: state %#x, %v, want permanent", dst, n.state, err)
		}
	}
}

func TestGateway(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(3)})
	a, r1, r2 := top.Host(1), top.Host(2), top.Host(3)
	patient(t, a)
	table := open(t, a, Options{ResolveTimeout: testkit.Patience})
	far4, far6 := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")
	p4, p6 := resolve(t, table, far4), resolve(t, table, far6)
	for _, p := range []*Path{p4, p6} {
		if _, err := wait(t, p); !errors.Is(err, ErrNoRoute) {
			t.Errorf("%s without a route: %v", p.key.dst, err)
		}
	}
	through := func(p *Path, src, gw netip.Addr, h *topo.Host, mtu int) func() bool {
		return func() bool {
			s := p.Current()
			return s.Err == nil && s.NextHop == gw && s.DstMAC == mac(h.MAC()) && s.Src == src && s.MTU == mtu
		}
	}
	sh(t, a, "ip route add 192.0.2.0/24 via "+r1.IPv4().String())
	sh(t, a, "ip route add 2001:db8::/32 via "+r1.IPv6().String())
	testkit.Eventually(t, "IPv4 through the first gateway", through(p4, a.IPv4(), r1.IPv4(), r1, 1500))
	testkit.Eventually(t, "IPv6 through the first gateway", through(p6, a.IPv6(), r1.IPv6(), r1, 1500))

	sh(t, a, "ip route replace 192.0.2.0/24 via "+r2.IPv4().String()+" mtu 600")
	sh(t, a, "ip route replace 2001:db8::/32 via "+r2.IPv6().String()+" mtu 1280")
	testkit.Eventually(t, "IPv4 through the second gateway", through(p4, a.IPv4(), r2.IPv4(), r2, 600))
	testkit.Eventually(t, "IPv6 through the second gateway", through(p6, a.IPv6(), r2.IPv6(), r2, 1280))
	if got := p4.Current().PMTU; got != rocev2.PMTU512 {
		t.Errorf("PMTU %v at an MTU of 600", got)
	}

	// IPv4 through an IPv6 gateway (RFC 5549 style).
	sh(t, a, "ip route replace 192.0.2.0/24 via inet6 "+r1.IPv6().String())
	testkit.Eventually(t, "IPv4 through an IPv6 gateway", through(p4, a.IPv4(), r1.IPv6(), r1, 1500))

	// A source of one's own, chosen by a rule.
	sh(t, a, "ip addr add 10.53.9.9/16 dev eth0")
	sh(t, a, "ip route add 192.0.2.0/24 via "+r2.IPv4().String()+" table 77")
	sh(t, a, "ip rule add from 10.53.9.9 table 77")
	src := netip.MustParseAddr("10.53.9.9")
	testkit.Eventually(t, "the new address", func() bool { return slices.Contains(table.GIDs(), src) })
	ps, err := table.ResolveFrom(src, far4)
	if err != nil {
		t.Fatal(err)
	}
	defer ps.Release()
	testkit.Eventually(t, "the rule's gateway", through(ps, src, r2.IPv4(), r2, 1500))
	testkit.Eventually(t, "others' gateway stays", through(p4, a.IPv4(), r1.IPv6(), r1, 1500))

	sh(t, a, "ip route del 192.0.2.0/24")
	testkit.Eventually(t, "no route", func() bool { return errors.Is(p4.Current().Err, ErrNoRoute) })
	for _, kind := range []string{"blackhole", "unreachable", "prohibit"} {
		sh(t, a, "ip route add "+kind+" 198.51.100.0/24")
		if _, err := wait(t, resolve(t, table, netip.MustParseAddr("198.51.100.1"))); !errors.Is(err, ErrNoRoute) {
			t.Errorf("%s: %v", kind, err)
		}
		sh(t, a, "ip route del "+kind+" 198.51.100.0/24")
	}
}

func TestNeighbourChangesItsMAC(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
	a, b := top.Host(1), top.Host(2)
	table := open(t, a, Options{})
	p4, p6 := resolve(t, table, b.IPv4()), resolve(t, table, b.IPv6())
	for _, p := range []*Path{p4, p6} {
		if _, err := wait(t, p); err != nil {
			t.Fatal(err)
		}
	}
	was := p4.Current()
	next := [6]byte{2, 0, 0, 0, 0x77, 1}
	for _, addr := range []string{b.IPv4().String(), b.IPv6().String()} { // as a gratuitous ARP would
		sh(t, a, "ip neigh replace "+addr+" dev eth0 lladdr 02:00:00:00:77:01 nud reachable")
	}
	for _, p := range []*Path{p4, p6} {
		testkit.Eventually(t, "the new MAC", func() bool {
			s := p.Current()
			return s.DstMAC == next && [6]byte(s.Ether[:6]) == next && s.Err == nil
		})
	}
	if was.DstMAC != mac(b.MAC()) {
		t.Error("a state that was handed out changed")
	}
}

// TestNeighbourIsKeptAlive: nobody but the engine talks to the neighbour, so the
// kernel alone would never notice that another machine has its address now.
func TestNeighbourIsKeptAlive(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(3)})
	a, b, c := top.Host(1), top.Host(2), top.Host(3)
	impatient(t, a)
	patient(t, a) // about the first answer
	table := open(t, a, Options{ResolveTimeout: testkit.Patience})
	sh(t, b, "ip addr add 10.53.7.7/16 dev eth0")
	p := resolve(t, table, netip.MustParseAddr("10.53.7.7"))
	if s, err := wait(t, p); err != nil || s.DstMAC != mac(b.MAC()) {
		t.Fatalf("%+v, %v", s, err)
	}
	impatient(t, a)
	sh(t, b, "ip addr del 10.53.7.7/16 dev eth0")
	sh(t, c, "ip addr add 10.53.7.7/16 dev eth0")
	start := time.Now()
	testkit.Eventually(t, "the path has the address of the other host", func() bool { return p.Current().DstMAC == mac(c.MAC()) })
	t.Logf("noticed after %v", time.Since(start))
}

func TestUnreachable(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
	a, b := top.Host(1), top.Host(2)
	patient(t, a) // the kernel and the table ask until impatient
	table := open(t, a, Options{ResolveTimeout: testkit.Patience})
	p4, p6 := resolve(t, table, netip.MustParseAddr("10.53.8.8")), resolve(t, table, netip.MustParseAddr("fd53:52::808"))
	if err := p4.Current().Err; !errors.Is(err, ErrPending) {
		t.Errorf("at once: %v", err)
	}
	impatient(t, a)
	for _, p := range []*Path{p4, p6} {
		start := time.Now()
		_, err := wait(t, p)
		if !errors.Is(err, ErrNeighbour) || !strings.Contains(err.Error(), p.key.dst.String()) {
			t.Errorf("%s: %v", p.key.dst, err)
		}
		t.Logf("%s: %v after %v", p.key.dst, err, time.Since(start))
	}
	// It heals by itself.
	sh(t, b, "ip addr add 10.53.8.8/16 dev eth0")
	sh(t, b, "ip addr add fd53:52::808/64 dev eth0 nodad")
	for _, p := range []*Path{p4, p6} {
		testkit.Eventually(t, "the neighbour that came up", func() bool { return p.Current().Err == nil && p.Current().DstMAC == mac(b.MAC()) })
	}
}

// A neighbour that has failed is asked for again when a path to it is resolved, the same one or another through it.
// Wait returns what is found then, not the failure before.
func TestFailedNeighbourIsAskedAgain(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
	a, b := top.Host(1), top.Host(2)
	table := open(t, a, Options{ResolveTimeout: testkit.Patience})
	for _, x := range []struct {
		dst, add string
		resolve  func(dst netip.Addr) (*Path, error)
	}{
		{"10.53.8.8", "ip addr add 10.53.8.8/16 dev eth0", table.Resolve},
		{"10.53.8.9", "ip addr add 10.53.8.9/16 dev eth0", func(dst netip.Addr) (*Path, error) { return table.ResolveFrom(a.IPv4(), dst) }},
	} {
		dst := netip.MustParseAddr(x.dst)
		impatient(t, a)
		first := resolve(t, table, dst)
		if _, err := wait(t, first); !errors.Is(err, ErrNeighbour) {
			t.Fatalf("%s: %v", dst, err)
		}
		if !table.WouldAsk(a.IPv4(), dst) {
			t.Errorf("%s: it would not be asked for", dst)
		}
		patient(t, a) // this time there is an answer
		sh(t, b, x.add)
		p, err := x.resolve(dst)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Release)
		for _, p := range []*Path{first, p} {
			if s, err := wait(t, p); err != nil || s.DstMAC != mac(b.MAC()) {
				t.Errorf("%s: %+v, %v", dst, s, err)
			}
		}
	}
}

// TestResolveTimeout: our bound counts when the kernel's is longer.
func TestResolveTimeout(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(1)})
	a := top.Host(1)
	patient(t, a)
	table := open(t, a, Options{ResolveTimeout: 500 * time.Millisecond})
	start := time.Now()
	_, err := wait(t, resolve(t, table, netip.MustParseAddr("10.53.8.8")))
	if took := time.Since(start); !errors.Is(err, ErrNeighbour) || took < 500*time.Millisecond || took >= testkit.Patience { // the kernel would take ten minutes
		t.Errorf("%v after %v", err, took)
	}
	// A table that does not give up before the context ends.
	table = open(t, a, Options{ResolveTimeout: testkit.Patience})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := resolve(t, table, netip.MustParseAddr("10.53.8.9")).Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrPending) {
		t.Errorf("Wait with a context: %v", err)
	}
}

func TestLoopback(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(1)})
	a := top.Host(1)
	table := open(t, a, Options{})
	for _, own := range []netip.Addr{a.IPv4(), a.IPv6()} {
		p := resolve(t, table, own)
		s := p.Current()
		if s.Err != nil || !s.Loopback || s.Src != own || s.SrcMAC != mac(a.MAC()) || s.DstMAC != mac(a.MAC()) || s.PMTU != rocev2.PMTU1024 {
			t.Errorf("%s: %+v", own, s)
		}
	}
	sh(t, a, "ip addr add 192.0.2.1/32 dev lo")
	if _, err := wait(t, resolve(t, table, netip.MustParseAddr("192.0.2.1"))); !errors.Is(err, ErrNoRoute) {
		t.Errorf("own address on another interface: %v", err)
	}
	// Loopback ends with the address.
	sh(t, a, "ip addr add 10.53.5.5/16 dev eth0")
	p := resolve(t, table, netip.MustParseAddr("10.53.5.5"))
	testkit.Eventually(t, "loopback", func() bool { return p.Current().Loopback })
	sh(t, a, "ip addr del 10.53.5.5/16 dev eth0")
	testkit.Eventually(t, "a neighbour instead", func() bool { return !p.Current().Loopback && p.Current().Err != nil })
}

func TestGIDsFollowAddresses(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
	a, b := top.Host(1), top.Host(2)
	var l log
	table := open(t, a, Options{OnEvent: l.add})
	g := table.GIDs()
	if len(g) != 3 || !g[0].IsLinkLocalUnicast() || !g[0].Is6() || g[1] != a.IPv4() || g[2] != a.IPv6() {
		t.Fatalf("GIDs %v, want link-local, %s, %s", g, a.IPv4(), a.IPv6())
	}
	added := netip.MustParseAddr("10.53.6.6")
	sh(t, a, "ip addr add 10.53.6.6/16 dev eth0")
	testkit.Eventually(t, "event for the new address", l.has(func(e Event) bool { return e.Kind == GIDAdded && e.Index == 3 && e.Addr == added }))
	if got, ok := table.GID(3); !ok || got != added {
		t.Errorf("GID 3 is %v, %v", got, ok)
	}
	p, err := table.ResolveFrom(added, b.IPv4())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	if s, err := wait(t, p); err != nil || s.Src != added {
		t.Errorf("from the new address: %+v, %v", s, err)
	}
	sh(t, a, "ip addr del 10.53.6.6/16 dev eth0")
	testkit.Eventually(t, "event for the removal", l.has(func(e Event) bool { return e.Kind == GIDRemoved && e.Index == 3 && e.Addr == added }))
	testkit.Eventually(t, "the path from there", func() bool { return errors.Is(p.Current().Err, ErrSource) })
	for _, i := range []int{-1, 3, 99} {
		if got, ok := table.GID(i); ok {
			t.Errorf("GID %d is %v", i, got)
		}
	}
	// An address that the kernel still checks for duplicates, which takes a second,
	// cannot be used yet.
	if err := a.Sysctl("net/ipv6/conf/eth0/accept_dad", "1"); err != nil {
		t.Fatal(err)
	}
	sh(t, a, "ip addr add fd53:52::66/64 dev eth0")
	checked := netip.MustParseAddr("fd53:52::66")
	testkit.Eventually(t, "the address that was checked", l.has(func(e Event) bool { return e.Kind == GIDAdded && e.Addr == checked }))
	if out, err := a.Command("ip", "addr", "show", "dev", "eth0", "tentative").CombinedOutput(); err != nil || strings.Contains(string(out), "fd53:52::66") {
		t.Errorf("it became a GID while it was tentative: %v\n%s", err, out)
	}
}

func TestLinkFollows(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
	a, b := top.Host(1), top.Host(2)
	var l log
	patient(t, a)
	table := open(t, a, Options{OnEvent: l.add, ResolveTimeout: testkit.Patience})
	p := resolve(t, table, b.IPv4())
	if _, err := wait(t, p); err != nil {
		t.Fatal(err)
	}
	sh(t, a, "ip link set eth0 mtu 600")
	testkit.Eventually(t, "the new MTU", func() bool { return p.Current().PMTU == rocev2.PMTU512 && table.Link().MTU == 600 })
	sh(t, a, "ip link set eth0 mtu 300")
	testkit.Eventually(t, "too small an MTU", func() bool { return errors.Is(p.Current().Err, ErrMTU) })
	sh(t, a, "ip link set eth0 mtu 1500")
	testkit.Eventually(t, "usable again", func() bool { return p.Current().Err == nil })
	sh(t, a, "ip link set eth0 address 02:00:00:00:66:01")
	testkit.Eventually(t, "our new MAC", func() bool { s := p.Current(); return s.SrcMAC == [6]byte{2, 0, 0, 0, 0x66, 1} && s.Err == nil })
	sh(t, a, "ip link set eth0 down")
	testkit.Eventually(t, "down", func() bool { return errors.Is(p.Current().Err, ErrDown) })
	testkit.Eventually(t, "event", l.has(func(e Event) bool { return e.Kind == LinkChanged && !e.Link.Up }))
	sh(t, a, "ip link set eth0 up")
	testkit.Eventually(t, "up", func() bool { return p.Current().Err == nil })
	sh(t, a, "ip link del eth0")
	testkit.Eventually(t, "gone", func() bool { return errors.Is(p.Current().Err, ErrGone) && table.Link().Gone })
	testkit.Eventually(t, "event", l.has(func(e Event) bool { return e.Kind == LinkChanged && e.Link.Gone }))
}

func TestResolveRefuses(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(1)})
	a := top.Host(1)
	table := open(t, a, Options{})
	for _, dst := range []netip.Addr{
		{}, netip.IPv4Unspecified(), netip.IPv6Unspecified(), netip.MustParseAddr("224.0.0.1"), netip.MustParseAddr("ff02::1"),
		netip.MustParseAddr("255.255.255.255"), netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback(),
	} {
		if _, err := table.Resolve(dst); !errors.Is(err, ErrAddress) {
			t.Errorf("%v: %v", dst, err)
		}
	}
	if _, err := table.ResolveFrom(a.IPv4(), a.IPv6()); !errors.Is(err, ErrAddress) {
		t.Errorf("mixed families: %v", err)
	}
	if _, err := wait(t, resolve(t, table, netip.MustParseAddr("10.53.255.255"))); !errors.Is(err, ErrNoRoute) {
		t.Errorf("the subnet's broadcast address: %v", err)
	}
	p, err := table.ResolveFrom(netip.MustParseAddr("10.9.9.9"), a.IPv4())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wait(t, p); !errors.Is(err, ErrSource) {
		t.Errorf("a source that does not exist: %v", err)
	}
	p.Release()
	for name, want := range map[string]string{"nosuch0": "network namespace", "lo": "Ethernet"} {
		err := a.Do(func() error { _, err := Open(name, Options{}); return err })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("open %s: %v", name, err)
		}
	}
	if _, err := Open(topo.IfName, Options{ResolveTimeout: -1}); err == nil {
		t.Error("negative timeout accepted")
	}
}

func TestCloseAndRelease(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
	a, b := top.Host(1), top.Host(2)
	table := open(t, a, Options{})
	p := resolve(t, table, b.IPv4())
	other, err := table.Resolve(b.IPv6())
	if err != nil {
		t.Fatal(err)
	}
	other.Release()
	if len(table.paths) != 1 || len(table.hops) != 1 {
		t.Errorf("%d paths and %d hops are left of one", len(table.paths), len(table.hops))
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := wait(t, p); !errors.Is(err, ErrClosed) {
		t.Errorf("path after Close: %v", err)
	}
	if _, err := table.Resolve(b.IPv4()); !errors.Is(err, ErrClosed) {
		t.Errorf("Resolve after Close: %v", err)
	}
}

// TestLostNews: after an overflow of the socket everything is asked for again.
func TestLostNews(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
	a, b := top.Host(1), top.Host(2)
	table := open(t, a, Options{})
	p := resolve(t, table, b.IPv4())
	if _, err := wait(t, p); err != nil {
		t.Fatal(err)
	}
	table.mu.Lock() // the reader stands still
	n := 0
	for ; n < 20_000; n++ { // two messages each, some 100 bytes
		err := a.Netlink().NeighSet(&netlink.Neigh{LinkIndex: table.kernel.index, IP: net.IPv4(10, 53, 3, 3), State: netlink.NUD_PERMANENT, HardwareAddr: net.HardwareAddr{2, 1, 1, 1, byte(n >> 8), byte(n)}})
		if err != nil {
			break
		}
	}
	sh(t, a, "ip neigh replace "+b.IPv4().String()+" dev eth0 lladdr 02:00:00:00:77:01 nud permanent")
	sh(t, a, "ip addr add 10.53.6.6/16 dev eth0")
	table.mu.Unlock()
	testkit.Eventually(t, "the neighbour's MAC", func() bool { return p.Current().DstMAC == [6]byte{2, 0, 0, 0, 0x77, 1} })
	testkit.Eventually(t, "the address", func() bool { return slices.Contains(table.GIDs(), netip.MustParseAddr("10.53.6.6")) })
}

func BenchmarkCurrent(b *testing.B) {
	p := &Path{}
	p.Set(&State{})
	b.ReportAllocs()
	for b.Loop() {
		if p.Current().Err != nil {
			b.Fatal()
		}
	}
}
