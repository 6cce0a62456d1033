// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// programs returns the ids of the XDP and the egress program on a host's eth0;
// 0 where there is none.
func programs(t testing.TB, h *topo.Host) (ids [2]uint32) {
	t.Helper()
	l := eth0(t, h)
	if x := l.Attrs().Xdp; x != nil {
		ids[0] = x.ProgId
	}
	if tcx := tcxPrograms(t, h, ebpf.AttachTCXEgress); len(tcx) > 0 {
		ids[1] = tcx[0]
		return ids
	}
	filters, err := h.Netlink().FilterList(l, netlink.HANDLE_MIN_EGRESS)
	if err != nil {
		return ids // no clsact
	}
	for _, f := range filters {
		if b, ok := f.(*netlink.BpfFilter); ok {
			ids[1] = uint32(b.Id)
		}
	}
	return ids
}

func eth0(t testing.TB, h *topo.Host) netlink.Link {
	t.Helper()
	l, err := h.Netlink().LinkByName(topo.IfName)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// tcxPrograms asks the kernel: bpftool 7.1 does not know TCX.
func tcxPrograms(t testing.TB, h *topo.Host, at ebpf.AttachType) (ids []uint32) {
	t.Helper()
	index := eth0(t, h).Attrs().Index
	err := h.Do(func() error {
		r, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: at})
		if err != nil {
			return err
		}
		for _, p := range r.Programs {
			ids = append(ids, uint32(p.ID))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// shape is everything that attach could change on a host's eth0, as people see it.
func (n *node) shape(t *testing.T) map[string]string {
	t.Helper()
	s := map[string]string{}
	for _, cmd := range []string{
		"ip -d link show eth0", "ip addr show eth0", "ip route show", "ip -6 route show",
		"tc qdisc show dev eth0", "tc class show dev eth0", "tc filter show dev eth0 ingress", "tc filter show dev eth0 egress",
		"ethtool -k eth0", "ethtool -l eth0", "bpftool net show dev eth0",
	} {
		argv := strings.Fields(cmd)
		out, _ := n.host.Command(argv[0], argv[1:]...).CombinedOutput() // some say that there is nothing
		s[cmd] = string(out)
	}
	for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
		s[at.String()] = fmt.Sprint(tcxPrograms(t, n.host, at))
	}
	pins, _ := os.ReadDir(loader.PinDir(n.pins, topo.IfName))
	s["pins"] = fmt.Sprint(pins)
	files, _ := filepath.Glob(filepath.Join(n.run, "*"))
	for _, f := range files {
		if f != loader.LogPath(n.run, topo.IfName) { // stays for diagnosis
			s["run files"] += f + " "
		}
	}
	return s
}

// TestDetachRestores: what attach changes, detach puts back, whatever was chosen.
// Meanwhile traffic flows, and does not suffer from either.
func TestDetachRestores(t *testing.T) {
	require.Command(t, "ip", "tc", "ethtool", "bpftool")
	for _, flags := range []string{
		"", "--egress clsact", "--pacer police", "--pacer none --xdp-mode generic",
	} {
		t.Run(strings.ReplaceAll(flags, " ", "_"), func(t *testing.T) {
			l := newLab(t, labSpec{bare: true})
			before := [2]map[string]string{l.node[0].shape(t), l.node[1].shape(t)}
			traffic := l.start(load.Flow{})
			for range 2 {
				for _, n := range l.node {
					n.must(t, append([]string{"attach", topo.IfName, "--rate", "1G"}, strings.Fields(flags)...)...)
				}
				a, err := loader.Open(topo.IfName, l.node[0].options())
				if err != nil {
					t.Fatal(err)
				}
				l.measured(t, a)
				a.Close()
				if cmp.Equal(before[0], l.node[0].shape(t)) {
					t.Error("attached, and nothing looks different: this test is blind")
				}
				for _, n := range l.node {
					n.must(t, "detach", topo.IfName)
				}
			}
			for i, n := range l.node {
				if d := cmp.Diff(before[i], n.shape(t)); d != "" {
					t.Errorf("host %d, before attach (-) and after detach (+):\n%s", i+1, d)
				}
			}
			if strings.Contains(flags, "--pacer none") {
				l.lossless(t, traffic)
			} else {
				l.end(t, traffic)
			}
		})
	}
}

// TestFirstContact: under htb a sender at full speed may lose some of its first
// packets, once, when HTB becomes the root qdisc; they are repeated and the data is
// intact. Between nodes of a node file that has happened before the first packet.
func TestFirstContact(t *testing.T) {
	const runs = 5
	for _, known := range []bool{false, true} {
		t.Run(map[bool]string{false: "unverified", true: "node_file"}[known], func(t *testing.T) {
			for range runs {
				l := newLab(t, labSpec{bare: true})
				flags := []string{"attach", topo.IfName, "--rate", "1G", "--pacer", "htb"}
				if known {
					flags = append(flags, "--nodes", l.nodeFile(t))
				}
				for _, n := range l.node {
					n.must(t, flags...)
				}
				a := l.node[0].open(t)
				if known {
					l.known(t, a)
				}
				traffic := l.start(load.Flow{})
				l.measured(t, a)
				testkit.Eventually(t, "a class", func() bool { return l.row(t, a).ClassId != 0 })
				if known {
					l.lossless(t, traffic)
				} else if r := l.end(t, traffic); r.NAKs > 1 || r.Timeouts > 1 {
					t.Errorf("%d NAKs and %d timeouts; the change of qdisc is one gap", r.NAKs, r.Timeouts)
				}
			}
		})
	}
}

// nodeFile lists both hosts.
func (l *lab) nodeFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nodes.yaml")
	text := fmt.Sprintf("nodes:\n  - {number: 1, addresses: [%s]}\n  - {number: 2, addresses: [%s]}\n", l.addr[0], l.addr[1])
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// known waits until the peer has answered HELLO.
func (l *lab) known(t *testing.T, a *loader.Attachment) {
	t.Helper()
	testkit.Eventually(t, "an answer to HELLO", func() bool {
		r, found, err := a.Lookup(l.addr[1])
		return err == nil && found && r.Regs.Caps&bpf.CapStamp != 0
	})
}

// TestNotOurs: neither does `xdp off` remove our program, nor detach what was
// there before us.
func TestNotOurs(t *testing.T) {
	require.Command(t, "ip", "tc")
	for _, egress := range []string{"tcx", "clsact"} {
		t.Run(egress, func(t *testing.T) {
			l := newLab(t, labSpec{bare: true})
			n, h := l.node[0], l.top.Host(1)
			index := eth0(t, h).Attrs().Index
			other := passProgram(t, ebpf.SchedCLS)
			var tcx link.Link
			err := h.Do(func() (err error) {
				tcx, err = link.AttachTCX(link.TCXOptions{Interface: index, Program: other, Attach: ebpf.AttachTCXEgress})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { tcx.Close() })
			err = h.Netlink().QdiscAdd(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
				LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
			}})
			if err != nil {
				t.Fatal(err)
			}
			err = h.Netlink().FilterAdd(&netlink.BpfFilter{
				FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: netlink.HANDLE_MIN_EGRESS, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 7},
				Fd:          other.FD(), Name: "somebody_else", DirectAction: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			before := n.shape(t)
			n.must(t, "attach", topo.IfName, "--egress", egress)
			ids := programs(t, h)
			for _, argv := range []string{"ip link set dev eth0 xdp off", "ip link set dev eth0 xdpdrv off", "ip link set dev eth0 xdpgeneric off"} {
				// Some of these are refused and some find nothing; ours stays.
				out, err := h.Command("sh", "-c", argv).CombinedOutput()
				t.Logf("%s: %v %s", argv, err, strings.TrimSpace(string(out)))
				if now := programs(t, h); now != ids || now[0] == 0 {
					t.Errorf("%s: programs were %v, are %v", argv, ids, now)
				}
			}
			n.must(t, "detach", topo.IfName)
			if d := cmp.Diff(before, n.shape(t)); d != "" {
				t.Errorf("before attach (-) and after detach (+):\n%s", d)
			}
		})
	}
}

// passProgram does nothing: it stands for what others have on an interface.
func passProgram(t testing.TB, typ ebpf.ProgramType) *ebpf.Program {
	t.Helper()
	verdict := int32(-1) // TC_ACT_UNSPEC: the next one decides
	if typ == ebpf.XDP {
		verdict = 2 // XDP_PASS
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "somebody_else", Type: typ, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, verdict), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// untilDeleted returns a flow that runs and gives up soon after its interface has gone. On a slow machine, one may give
// up before; then another follows.
func (l *lab) untilDeleted(t *testing.T, n *node) *flow {
	t.Helper()
	for range 20 {
		a := n.open(t)
		sent := l.row(t, a).TxPackets
		f := l.start(load.Flow{GiveUp: 500 * time.Millisecond})
		ended := func() bool {
			select {
			case <-f.done:
				return true
			default:
				return false
			}
		}
		testkit.Eventually(t, "more packets", func() bool { return l.row(t, a).TxPackets > sent || ended() })
		a.Close()
		if !ended() {
			return f
		}
		t.Logf("the flow gave up: %v", f.err)
	}
	t.Fatal("20 flows gave up")
	return nil
}

// TestInterfaceDeleted: the interface goes away under agent and traffic. Nothing
// stays behind, and the name can be attached again.
func TestInterfaceDeleted(t *testing.T) {
	l := newLab(t, labSpec{})
	n, h := l.node[0], l.top.Host(1)
	a := n.open(t)
	first := l.start(load.Flow{})
	l.measured(t, a)
	l.end(t, first)
	a.Close() // a holder of the maps would be none of the product's business
	traffic := l.untilDeleted(t, n)
	if err := h.Netlink().LinkDel(eth0(t, h)); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the agent's end", func() bool { return !loader.AgentAlive(n.run, topo.IfName) })
	<-traffic.done
	if traffic.err == nil {
		t.Error("the flow ended without an error, but nothing received it")
	}
	for _, path := range []string{loader.PinDir(n.pins, topo.IfName), filepath.Join(n.run, topo.IfName+".json"), filepath.Join(n.run, topo.IfName+".lock")} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
	if log := n.agentLog(t); !strings.Contains(log, "the interface was deleted") || strings.Contains(log, "level=ERROR") {
		t.Errorf("the agent's log:\n%s", log)
	}
	if out, err := n.try("attach", topo.IfName); err == nil || !strings.Contains(out, "no such interface") {
		t.Errorf("attach to no interface: %v\n%s", err, out)
	}

	err := h.Netlink().LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: topo.IfName}, PeerName: "other"})
	if err != nil {
		t.Fatal(err)
	}
	n.must(t, "attach", topo.IfName)
	if ids := programs(t, h); ids[0] == 0 || ids[1] == 0 {
		t.Errorf("programs %v after attaching the new interface", ids)
	}
	n.must(t, "detach", topo.IfName)
}
