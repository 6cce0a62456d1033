// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// traces lists what a topology of this process could leave behind.
func traces(t *testing.T) []string {
	t.Helper()
	var out []string
	names, _ := filepath.Glob(fmt.Sprintf("%s/%s%d-*", netnsDir, namePrefix, os.Getpid()))
	for _, n := range names {
		out = append(out, "namespace "+n)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, fmt.Sprintf("%s/%s%d-", netnsDir, namePrefix, os.Getpid())) {
			out = append(out, "mount "+line)
		}
	}
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		out = append(out, "link "+l.Attrs().Name)
	}
	slices.Sort(out)
	return out
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	RequireRoot(t)
	before := traces(t)
	top, err := New(Spec{Hosts: []HostSpec{{}, {Name: "slow", Bottleneck: &Bottleneck{RateBPS: 1e8}}, {Tap: true}}})
	if err != nil {
		t.Fatal(err)
	}
	if d := len(traces(t)) - len(before); d != 6 { // three namespaces, each a name and a mount
		t.Errorf("%d traces while the topology is up, want 6", d)
	}
	// A process that would outlive us keeps its namespace alive, but not our links.
	sleep := top.Host(1).Command("sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	ns, err := netns.GetFromName(top.Host(1).Namespace())
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if err := top.Close(); err != nil {
		t.Fatal(err)
	}
	if err := top.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if diff := cmp.Diff(before, traces(t)); diff != "" {
		t.Errorf("left behind (-before +after):\n%s", diff)
	}
	if sleep.ProcessState == nil || alive(sleep.Process.Pid) {
		t.Error("a process started in the topology outlived it")
	}
	nl, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer nl.Close()
	links, err := nl.LinkList()
	if err != nil || len(links) != 1 {
		t.Errorf("links in the closed namespace: %v, %v; want only lo", links, err)
	}
	if err := top.Host(1).Command("true").Start(); err == nil {
		t.Error("Start on a closed topology succeeded")
	}
}

func TestFailedBuildLeavesNothingBehind(t *testing.T) {
	RequireRoot(t)
	if err := prepareDir(); err != nil {
		t.Fatal(err)
	}
	before := traces(t)
	top := &Topology{}
	var err error
	if top.sw, err = newSwitch(fmt.Sprintf("%s%d-x-switch", namePrefix, os.Getpid())); err != nil {
		t.Fatal(err)
	}
	// The name is taken, so the host is built halfway.
	spec := Spec{Hosts: Hosts(1)}
	if err := spec.check(); err != nil {
		t.Fatal(err)
	}
	spec.Hosts[0].MTU = 70000 // past the check: the kernel refuses the link
	if _, err := top.newHost(fmt.Sprintf("%s%d-x-", namePrefix, os.Getpid()), 1, spec.Hosts[0]); err == nil {
		t.Error("a link with an MTU of 70000 was built")
	}
	if err := top.Close(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, traces(t)); diff != "" {
		t.Errorf("left behind (-before +after):\n%s", diff)
	}
}

func TestIPNetnsSeesHostsAndHidesNone(t *testing.T) {
	top := ForTest(t, Spec{Hosts: Hosts(1)})
	other := fmt.Sprintf("topotest-%d", os.Getpid())
	if out, err := exec.Command("ip", "netns", "add", other).CombinedOutput(); err != nil {
		t.Fatalf("ip netns add: %s, %v", out, err)
	}
	defer exec.Command("ip", "netns", "delete", other).Run()
	out, err := exec.Command("ip", "netns", "list").CombinedOutput()
	for _, name := range []string{other, top.Host(1).Namespace(), top.Switch().Namespace()} {
		if err != nil || !strings.Contains(string(out), name) {
			t.Errorf("ip netns list lacks %s: %s, %v", name, out, err)
		}
	}
	out, err = exec.Command("nsenter", "--net="+top.Host(1).NamespacePath(), "ip", "-o", "link", "show", IfName).CombinedOutput()
	if err != nil || !strings.Contains(string(out), IfName) {
		t.Errorf("nsenter after ip netns add: %s, %v", out, err)
	}
}

func TestSweepRemovesWhatTheDeadLeft(t *testing.T) {
	RequireRoot(t)
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	if err := prepareDir(); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("%s%d-1-h1", namePrefix, dead.Process.Pid)
	var th *thread
	var ns netns.NsHandle
	// Another test process may sweep the name before the namespace is mounted on it.
	testkit.Eventually(t, "a namespace of a process that has ended", func() (err error) {
		th, ns, err = newNamespace(name)
		return err
	})
	th.stop()
	ns.Close()
	unmounted := fmt.Sprintf("%s/%s%d-1-h2", netnsDir, namePrefix, dead.Process.Pid)
	if err := os.WriteFile(unmounted, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(); err != nil {
		t.Error(err)
	}
	mine := ForTest(t, Spec{Hosts: Hosts(1)})
	for _, gone := range []string{filepath.Join(netnsDir, name), unmounted} {
		if _, err := os.Stat(gone); !os.IsNotExist(err) {
			t.Errorf("%s is still there", gone)
		}
	}
	if _, err := os.Stat(mine.Host(1).NamespacePath()); err != nil {
		t.Error("a living process's namespace was swept")
	}
}

func TestSpecErrorsSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{}, "1 to 1000"},
		{Spec{Hosts: []HostSpec{{Name: "a b"}}}, "use 1 to 32"},
		{Spec{Hosts: []HostSpec{{Name: "switch"}}}, "reserved"},
		{Spec{Hosts: []HostSpec{{Name: "a"}, {Name: "a"}}}, "taken"},
		{Spec{Hosts: Hosts(1), MTU: 100}, "1280"},
		{Spec{Hosts: []HostSpec{{Bottleneck: &Bottleneck{}}}}, "8 kbit/s"},
		{Spec{Hosts: []HostSpec{{Bottleneck: &Bottleneck{RateBPS: 1e8, Limit: 1000}}}}, "hold a frame"},
		{Spec{Hosts: []HostSpec{{Bottleneck: &Bottleneck{RateBPS: 1e8, Burst: -1}}}}, "negative"},
	} {
		top, err := New(c.spec)
		if err == nil {
			top.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New(%+v) = %v, want an error with %q", c.spec, err, c.want)
		}
	}
}

// exchange sends one datagram of size bytes from a to b, whole or not at all.
func exchange(t *testing.T, a, b *Host, from, to netip.Addr, size int) {
	t.Helper()
	listen := func(h *Host, addr netip.Addr) (c *net.UDPConn) {
		err := h.Do(func() (err error) {
			c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	tx, rx := listen(a, from), listen(b, to)
	defer tx.Close()
	defer rx.Close()
	raw, err := tx.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { // don't fragment
		if from.Is4() {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		} else {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.WriteToUDPAddrPort(make([]byte, size), rx.LocalAddr().(*net.UDPAddr).AddrPort()); err != nil {
		t.Fatalf("send %d bytes %s -> %s: %v", size, from, to, err)
	}
	rx.SetReadDeadline(time.Now().Add(5 * time.Minute)) // a datagram that is not lost comes, however late
	n, src, err := rx.ReadFromUDPAddrPort(make([]byte, 65536))
	if err != nil || n != size || src.Addr().Unmap() != from {
		t.Errorf("%s -> %s: got %d bytes from %s, %v; want %d", from, to, n, src, err, size)
	}
}

func TestEveryHostReachesEveryOther(t *testing.T) {
	for _, c := range []struct {
		mtu    int
		static bool
	}{{1500, false}, {1500, true}, {4200, true}, {9000, true}} {
		t.Run(fmt.Sprintf("mtu=%d,static=%v", c.mtu, c.static), func(t *testing.T) {
			top := ForTest(t, Spec{Hosts: Hosts(3), MTU: c.mtu, StaticNeighbours: c.static})
			for _, a := range top.Hosts() {
				if !c.static {
					askPatiently(t, a)
				}
			}
			for _, a := range top.Hosts() {
				for _, b := range top.Hosts() {
					if a != b {
						exchange(t, a, b, a.IPv4(), b.IPv4(), c.mtu-28)
						exchange(t, a, b, a.IPv6(), b.IPv6(), c.mtu-48)
					}
				}
			}
		})
	}
}

// askPatiently has a host ask for a neighbour for five minutes, and not for three seconds. When the kernel ends its
// questions, it drops the datagram that waits for the answer.
func askPatiently(t *testing.T, h *Host) {
	t.Helper()
	for _, family := range []string{"ipv4", "ipv6"} {
		testkit.Must(t, h.Sysctl("net/"+family+"/neigh/"+IfName+"/mcast_solicit", "300"))
	}
}

func TestStaticNeighboursKeepARPOffTheWire(t *testing.T) {
	top := ForTest(t, Spec{Hosts: Hosts(2), StaticNeighbours: true})
	var fd int
	err := top.Host(2).Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		ifi, err := net.InterfaceByName(IfName)
		if err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: 0x0300, Ifindex: ifi.Index}) // ETH_P_ALL
	})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	a, b := top.Host(1), top.Host(2)
	exchange(t, a, b, a.IPv4(), b.IPv4(), 100)
	exchange(t, b, a, b.IPv6(), a.IPv6(), 100)
	buf := make([]byte, 2048)
	var seen int
	for {
		n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
		if err != nil {
			break
		}
		seen++
		arp := buf[12] == 0x08 && buf[13] == 0x06
		discovery := buf[12] == 0x86 && buf[13] == 0xdd && buf[20] == 58 && n > 54 && (buf[54] == 135 || buf[54] == 136)
		if arp || discovery {
			t.Errorf("neighbour traffic on the wire: % x", buf[:n])
		}
	}
	if seen < 2 {
		t.Errorf("the capture saw %d packets, want the two datagrams at least", seen)
	}
}

func TestCommandRunsInsideAndSeesBPFFS(t *testing.T) {
	top := ForTest(t, Spec{Hosts: Hosts(2)})
	out, err := top.Host(2).Command("ip", "-4", "-o", "addr", "show", IfName).Output()
	if err != nil || !strings.Contains(string(out), top.Host(2).IPv4().String()+"/16") {
		t.Errorf("ip addr: %s, %v", out, err)
	}
	outside, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(outside), " - bpf ") {
		require.Skip(t, "no bpffs mounted here")
	}
	out, err = top.Host(2).Command("cat", "/proc/self/mountinfo").Output()
	if err != nil || !strings.Contains(string(out), " - bpf ") {
		t.Errorf("bpffs is hidden inside the namespace (%v)", err)
	}
	if _, err := top.Host(1).Command("sh", "-c", "echo oops >&2; exit 3").Output(); err == nil || !strings.Contains(err.Error(), "oops") {
		t.Errorf("failing command: %v, want its standard error", err)
	}
}

func TestDoComesBackToTheOldNamespace(t *testing.T) {
	top := ForTest(t, Spec{Hosts: Hosts(1)})
	inside := func() bool { _, err := net.InterfaceByName(bridgeName); return err == nil }
	func() {
		defer func() { recover() }()
		top.Switch().Do(func() error {
			if !inside() {
				t.Error("Do ran outside the namespace")
			}
			panic("on the way")
		})
	}()
	for range 50 {
		done := make(chan bool)
		go func() { done <- inside() }()
		if inside() || <-done {
			t.Fatal("a thread stayed in the namespace")
		}
	}
}

func TestOffloadsOfPorts(t *testing.T) {
	top := ForTest(t, Spec{Hosts: []HostSpec{{}, {NoOffload: true}}})
	if err := top.Switch().features(top.Host(1).Port().Name(), map[string]bool{"no-such-feature": true}); err == nil {
		t.Error("an unknown feature was accepted")
	}
	if got := featureOf(t, top.Switch(), "port1", "rx-gro"); !got {
		t.Error("GRO is off on a port: XDP_TX from its host would be lost")
	}
	if featureOf(t, top.Host(2), IfName, "tx-checksum-ip-generic") {
		t.Error("NoOffload left transmit checksums on")
	}
	if !featureOf(t, top.Host(1), IfName, "tx-checksum-ip-generic") {
		t.Error("offloads are off without NoOffload")
	}
}

func featureOf(t *testing.T, h *Host, ifName, feature string) (on bool) {
	t.Helper()
	err := h.Do(func() error {
		e, err := ethtool.NewEthtool()
		if err != nil {
			return err
		}
		defer e.Close()
		all, err := e.Features(ifName)
		on = all[feature]
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return on
}
