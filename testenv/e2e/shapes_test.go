// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// TestShapes sends what the wire may look like: both IP versions, small and jumbo
// frames. Packets leave stamped, and arrive at the socket as they were made: its
// ICRC covers the lengths that the option had changed on the way.
func TestShapes(t *testing.T) {
	for _, s := range []struct {
		mtu, pmtu int
		v6        bool
	}{{1500, 1024, true}, {9000, 4096, false}, {9000, 4096, true}, {1500, 256, false}} {
		t.Run(fmt.Sprintf("mtu_%d_pmtu_%d_IPv6_%v", s.mtu, s.pmtu, s.v6), func(t *testing.T) {
			l := newLab(t, labSpec{mtu: s.mtu, v6: s.v6, attach: []string{"--rate", "1G"}})
			a := l.node[0].open(t)
			traffic := l.start(load.Flow{PMTU: s.pmtu})
			before := l.measured(t, a)
			var after bpf.DestRegs
			testkit.Eventually(t, "a thousand packets and an echo", func() bool {
				after = l.row(t, a)
				return after.TxPackets-before.TxPackets >= 1000 && after.LastEchoT1Ns != before.LastEchoT1Ns
			})
			// One clock: all are positive, as soon as the pacer does what the rate says. On a busy
			// machine the agent changes its class later than the rate.
			b := l.node[1].open(t)
			testkit.Eventually(t, "positive times", func() bool {
				after = l.row(t, a)
				peer, found, err := b.Lookup(l.addr[0])
				return err == nil && found && after.TxNs > 0 && after.RxNs > 0 && peer.Regs.InTxNs > 0
			})
			l.lossless(t, traffic)
			if after.TxUnstamped != before.TxUnstamped {
				t.Errorf("%d of %d packets left unstamped after HELLO", after.TxUnstamped-before.TxUnstamped, after.TxPackets-before.TxPackets)
			}
		})
	}
}

// TestOtherTraffic: what is not RoCEv2 passes as if nothing were attached, and
// leaves no trace in the table.
func TestOtherTraffic(t *testing.T) {
	require.Command(t, "iperf3")
	l := newLab(t, labSpec{unmet: true})
	server := l.top.Host(2).Command("iperf3", "-s", "-1")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	var out []byte
	testkit.Eventually(t, "TCP through the attached interfaces", func() bool {
		var err error
		out, err = l.top.Host(1).Command("iperf3", "-c", l.addr[1].String(), "-n", "50M").CombinedOutput()
		return err == nil // the server may not listen yet
	})
	t.Logf("%s", lastLines(out, 4))
	_ = server.Process.Kill() // it does not always end by itself
	_ = server.Wait()

	// Ports other than RoCEv2's, and RoCEv2's own as the source port.
	for _, s := range []struct{ from, to uint16 }{{0, 4790}, {0, 4792}, {0, 53}, {4793, 5000}} {
		for _, size := range []int{1, 12, 58, 1472} {
			want := bytes.Repeat([]byte{byte(s.to), 0x11}, size)[:size]
			if got := l.datagram(t, s.from, s.to, want); !bytes.Equal(got, want) {
				t.Errorf("UDP %d -> %d, %d bytes: %d bytes arrived, equal %v", s.from, s.to, size, len(got), bytes.Equal(got, want))
			}
		}
	}
	for i, n := range l.node {
		rows, err := n.open(t).Rows()
		if err != nil || len(rows) > 0 {
			t.Errorf("host %d: %d entries in the table, err %v", i+1, len(rows), err)
		}
	}
}

func lastLines(b []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// datagram sends one from host 1 to host 2, from the kernel's choice of port if
// from is 0, and returns what arrived.
func (l *lab) datagram(t *testing.T, from, to uint16, data []byte) []byte {
	t.Helper()
	open := func(i int, port uint16) (c *net.UDPConn) {
		err := l.top.Host(i + 1).Do(func() (err error) {
			c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(l.addr[i], port)))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	src, dst := open(0, from), open(1, to)
	defer src.Close()
	defer dst.Close()
	if _, err := src.WriteToUDPAddrPort(data, netip.AddrPortFrom(l.addr[1], to)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	_ = dst.SetReadDeadline(time.Now().Add(testkit.Patience))
	n, err := dst.Read(buf)
	if err != nil {
		t.Error(err)
	}
	return buf[:n]
}

// TestPolicySetLive changes the policy under traffic.
func TestPolicySetLive(t *testing.T) {
	l := newLab(t, labSpec{attach: []string{"--rate", "1G"}})
	n := l.node[0]
	a := n.open(t)
	traffic := l.start(load.Flow{})
	l.measured(t, a)
	for _, mode := range []string{"literal", "fixed", "robust"} {
		n.must(t, "policy", "set", topo.IfName, "--mode", mode)
		if out := n.must(t, "policy", "show", topo.IfName); !strings.Contains(out, mode) {
			t.Errorf("policy show does not say %s:\n%s", mode, out)
		}
		// Three: the first may have been computed when the mode changed, and the last is in the
		// registers before its rate is. literal may have cut so deep that an echo takes its time.
		decisions := func(n uint32) (after bpf.DestRegs) {
			before := l.row(t, a).Policy.Decisions
			testkit.Eventually(t, "decisions in mode "+mode, func() bool {
				after = l.row(t, a)
				return after.Policy.Decisions >= before+n
			})
			return after
		}
		rate := decisions(3).RateBps
		if mode != "fixed" {
			continue
		}
		if after := decisions(10); after.RateBps != rate || rate == 0 {
			t.Errorf("fixed: the rate went from %d to %d bit/s", rate, after.RateBps)
		}
	}
	if out, err := n.try("policy", "set", topo.IfName, "--mode", "wrong"); err == nil {
		t.Errorf("mode wrong is accepted:\n%s", out)
	}
	l.end(t, traffic) // a mode may lose packets to its own bottleneck, never data
}
