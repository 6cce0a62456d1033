// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// TestAgentKilled: the data plane outlives its agent. It goes on with the last
// rates, lets traffic go unpaced once the heartbeat is overdue, and a new agent
// finds everything as it was.
func TestAgentKilled(t *testing.T) {
	const timeout = 3 * time.Second
	// A rate that no machine reaches here: traffic that goes unpaced overtakes what waits in the pacer, which
	// TestAgentKilledWhilePacing is about.
	l := newLab(t, labSpec{attach: []string{"--heartbeat-timeout", timeout.String(), "--rate", "100G"}})
	// The last rate shall be one at which something is seen within the timeout.
	l.node[0].must(t, "policy", "set", topo.IfName, "--mode", "fixed")
	a := l.node[0].open(t)
	traffic := l.start(load.Flow{})
	l.measured(t, a)

	l.node[0].killAgent(t)
	// An agent that did not run for the whole timeout has had traffic unpaced before.
	opened := stat(t, a, "tx_fail_open")
	dead, overdue := l.row(t, a), overdueAt(t, a, timeout)
	var later bpf.DestRegs
	testkit.Eventually(t, "packets and echoes without an agent", func() bool {
		later = l.row(t, a)
		return later.TxPackets > dead.TxPackets && later.LastEchoT1Ns > dead.LastEchoT1Ns
	})
	if later.RateBps != dead.RateBps || later.RateBps == 0 {
		t.Errorf("rate went from %d to %d bit/s without an agent", dead.RateBps, later.RateBps)
	}
	testkit.Eventually(t, "fail open", func() bool { return stat(t, a, "tx_fail_open") > opened })
	if early := time.Duration(overdue - loader.Monotonic()); early > 0 {
		t.Errorf("traffic went unpaced %v before the heartbeat was overdue", early)
	}
	if out, _ := l.node[0].try("status", topo.IfName); !strings.Contains(out, "!") {
		t.Errorf("status does not complain about the dead agent:\n%s", out)
	}

	// What the new agent lets pass unpaced is its fault, however seldom it runs.
	out := l.node[0].must(t, "attach", topo.IfName, "--heartbeat-timeout", "1h")
	if !strings.Contains(out, "adopted") {
		t.Errorf("attach says %q", out)
	}
	beats(t, a, overdue-uint64(timeout))
	adopted := l.row(t, a)
	if adopted.Node != dead.Node || dead.Node == 0 || adopted.TxPackets < later.TxPackets || adopted.ClassId != dead.ClassId || adopted.RxToken != dead.RxToken {
		t.Errorf("the entry did not outlive the agent: node %d -> %d, packets %d -> %d, class %x -> %x",
			dead.Node, adopted.Node, later.TxPackets, adopted.TxPackets, dead.ClassId, adopted.ClassId)
	}
	testkit.Eventually(t, "decisions of the new agent", func() bool {
		return l.row(t, a).Policy.Decisions > dead.Policy.Decisions
	})
	opened = stat(t, a, "tx_fail_open")
	time.Sleep(200 * time.Millisecond)
	if now := stat(t, a, "tx_fail_open"); now != opened {
		t.Errorf("%d packets went unpaced with the new agent", now-opened)
	}
	l.lossless(t, traffic)
}

// beats waits for a heartbeat after an earlier one.
func beats(t *testing.T, a *loader.Attachment, earlier uint64) {
	t.Helper()
	testkit.Eventually(t, "a heartbeat of the new agent", func() bool { return overdueAt(t, a, 0) > earlier })
}

// overdueAt is when a heartbeat that has stopped is overdue, on the monotonic clock.
func overdueAt(t *testing.T, a *loader.Attachment, timeout time.Duration) uint64 {
	t.Helper()
	cfg, err := a.Config()
	if err != nil {
		t.Fatal(err)
	}
	return cfg.HeartbeatNs + uint64(timeout)
}

// TestRecoveredProgramsKeepClock: programs that only a dead agent and its pins have kept are loaded
// again with the clock of those that stamp, whatever the options of the next attach.
func TestRecoveredProgramsKeepClock(t *testing.T) {
	l := newLab(t, labSpec{attach: []string{"--clock", "tai", "--rate", "1G"}, unmet: true})
	n := l.node[0]
	n.killAgent(t)
	for _, pin := range []string{"prog_agent_call", "prog_engine_sync"} {
		if err := os.Remove(filepath.Join(loader.PinDir(n.pins, topo.IfName), pin)); err != nil {
			t.Fatal(err)
		}
	}
	n.must(t, "attach", topo.IfName)
	a := n.open(t)
	traffic := l.start(load.Flow{})
	l.measured(t, a)
	n.must(t, "policy", "set", topo.IfName, "--max-rate", "100M")
	testkit.Eventually(t, "a new rate", func() bool { return l.row(t, a).ValidAfterNs != 0 })
	if valid, now := l.row(t, a).ValidAfterNs, loader.Clock(unix.CLOCK_TAI); now > valid+uint64(time.Hour) {
		t.Errorf("samples count from %d ns, which is not on CLOCK_TAI (%d ns)", valid, now)
	}
	l.end(t, traffic)
}

// TestAgentKilledWhilePacing: what a dead agent's last rate holds back stays held
// back until the heartbeat is overdue, and then no longer.
func TestAgentKilledWhilePacing(t *testing.T) {
	const timeout, look, rate = 10 * time.Second, 500 * time.Millisecond, 20e6
	l := newLab(t, labSpec{attach: []string{"--heartbeat-timeout", timeout.String(), "--rate", "20M"}})
	a := l.node[0].open(t)
	traffic := l.start(load.Flow{MinRTO: 10 * time.Second})
	l.measured(t, a)
	testkit.Eventually(t, "pacing", func() bool { return l.row(t, a).PacedNs > 0 })

	sent := func(d time.Duration) float64 { // a stall of this process makes it smaller
		start, before := time.Now(), l.row(t, a).TxBytes
		time.Sleep(d)
		return float64(l.row(t, a).TxBytes-before) * 8 / time.Since(start).Seconds()
	}
	l.node[0].killAgent(t)
	opened, overdue := stat(t, a, "tx_fail_open"), overdueAt(t, a, timeout)
	// A machine that stops for ten seconds here looks at what is unpaced rightly.
	if bps := sent(look); bps > 1.3*rate && loader.Monotonic() < overdue {
		t.Errorf("%.0f Mbit/s right after the agent died, the last rate was at most %.0f", bps/1e6, rate/1e6)
	}
	testkit.Eventually(t, "fail open", func() bool { return stat(t, a, "tx_fail_open") > opened })
	testkit.Eventually(t, "more than the last rate after the heartbeat timeout", func() bool { return sent(look/2) > 1.3*rate })
	l.node[0].must(t, "attach", topo.IfName, "--heartbeat-timeout", "1h") // as above
	beats(t, a, overdue-uint64(timeout))
	// What waits in the sender's socket and beyond goes first.
	testkit.Eventually(t, "pacing by the new agent", func() bool { return sent(look/2) < 1.1*rate })
	if bps := sent(look); bps > 1.3*rate {
		t.Errorf("%.0f Mbit/s with a new agent, whose link has %.0f", bps/1e6, rate/1e6)
	}
	// With htb, what waits in the class at the moment of opening is overtaken until
	// it has drained: the receiver asks for it again a few times, then all is well.
	r := l.end(t, traffic)
	if r.NAKs > 5 {
		t.Errorf("%d NAKs; opening costs a few", r.NAKs)
	}
	if r.Timeouts > 0 {
		l.allArrived(t, traffic)
	}
}

// TestUpgradeUnderTraffic replaces programs and agent several times; no packet is
// lost and the table stays.
func TestUpgradeUnderTraffic(t *testing.T) {
	for _, egress := range []string{"tcx", "clsact"} {
		t.Run(egress, func(t *testing.T) {
			l := newLab(t, labSpec{attach: []string{"--egress", egress, "--rate", "1G", "--heartbeat-timeout", "1h"}}) // however slow the machine
			l.node[0].must(t, "policy", "set", topo.IfName, "--mode", "fixed")                                         // as above
			a := l.node[0].open(t)
			traffic := l.start(load.Flow{})
			before := l.measured(t, a)
			seen := map[[2]uint32]bool{programs(t, l.top.Host(1)): true}
			for range 4 {
				for _, n := range l.node {
					n.must(t, "attach", topo.IfName, "--upgrade")
				}
				ids := programs(t, l.top.Host(1))
				if seen[ids] {
					t.Errorf("programs %v were there before", ids)
				}
				seen[ids] = true
			}
			after := l.row(t, a)
			if after.Node != before.Node || after.RxToken != before.RxToken || after.TxPackets < before.TxPackets {
				t.Errorf("the entry changed: node %d -> %d, packets %d -> %d", before.Node, after.Node, before.TxPackets, after.TxPackets)
			}
			testkit.Eventually(t, "decisions of the last agent", func() bool {
				return l.row(t, a).Policy.Decisions > after.Policy.Decisions
			})
			if n := stat(t, a, "tx_fail_open"); n > 0 {
				t.Errorf("%d packets went unpaced", n)
			}
			l.lossless(t, traffic)
		})
	}
}
