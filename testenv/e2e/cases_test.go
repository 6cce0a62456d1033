// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// portRate is what the switch's port to each of the hosts carries, in bit/s. Other
// traffic fills the queues there; the ports drain them at this rate however busy the
// machine is.
const portRate = 20e6

// leastRate is min-rate below, in bit/s.
const leastRate = 1_000_000

// otherLoad is other traffic in one direction.
type otherLoad struct {
	at     int     // bytes at once
	factor float64 // share of portRate from then on
}

// The cases 1 and 3 of S1.6 in its own words (mode literal), from queues of real
// interfaces. Case 1: both queues grow, that of the reverse path faster. Case 3: the
// forward path's grows while that of the reverse path drains.
//
// A round may show another case if the machine pauses in it. The case must come in one
// of the rounds, and whenever it comes, the rate must follow.
func TestCasesOnInterfaces(t *testing.T) {
	for _, c := range []struct {
		name             string
		number           uint8
		forward, reverse otherLoad
	}{
		{"case 1", 1, otherLoad{0, 2}, otherLoad{0, 4}},
		{"case 3", 3, otherLoad{0, 2}, otherLoad{portRate / 8 / 2, .3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, labSpec{attach: []string{"--rate", "1G", "--policy", "mode=literal", "--policy", "literal-deadband=300us",
				"--policy", "max-rate=4M", "--policy", "initial-rate=4M", "--policy", "min-rate=1M"}})
			a := l.node[0].open(t)
			for _, h := range l.top.Hosts() {
				if err := h.Port().SetBottleneck(&topo.Bottleneck{RateBPS: portRate, Limit: 16 << 20}); err != nil {
					t.Fatal(err)
				}
			}
			traffic := l.start(load.Flow{PMTU: 256, Window: 64, AckEvery: 1})
			l.measured(t, a)
			seen := 0
			for deadline := time.Now().Add(testkit.Patience); seen == 0; {
				if time.Now().After(deadline) {
					t.Fatalf("no decision by %s in %v", c.name, testkit.Patience)
				}
				stop := make(chan struct{})
				forward, reverse := l.fill(t, 0, c.forward, stop), l.fill(t, 1, c.reverse, stop)
				seen = l.watchCase(t, a, c.number, time.Second)
				close(stop)
				<-forward
				<-reverse
				l.drained(t)
			}
			t.Logf("%d decisions by %s", seen, c.name)
			l.end(t, traffic)
		})
	}
}

// watchCase reads the table for a while. It counts the decisions by a case that it saw
// and checks what they did to the rate.
func (l *lab) watchCase(t *testing.T, a *loader.Attachment, number uint8, d time.Duration) (seen int) {
	t.Helper()
	before := l.row(t, a)
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
		now := l.row(t, a)
		if l.row(t, a).Policy != now.Policy {
			continue // the agent writes it just now
		}
		if now.Policy.Decisions != before.Policy.Decisions && now.Policy.CaseNo == number && checkCase(t, &before, &now) {
			seen++
		}
		before = now
	}
	return seen
}

// checkCase checks the last decision, by case 1 or 3. It returns false if the registers
// do not show the rate before it.
func checkCase(t *testing.T, before, now *bpf.DestRegs) bool {
	t.Helper()
	p := &now.Policy
	if p.CaseNo == 1 {
		if fourcase.Action(p.Action) == fourcase.ActionHold {
			return false // at the lowest rate
		}
		if p.TrendTxNs <= 0 || p.TrendRxNs <= 0 {
			t.Errorf("case 1, and the times changed by %d and %d ns", p.TrendTxNs, p.TrendRxNs)
		}
		if want := max(p.RateBeforeDecreaseBps/2, leastRate); fourcase.Action(p.Action) != fourcase.ActionBigCut || p.RateBps > want+want/100 {
			t.Errorf("case 1: the rate went from %d to %d bit/s, want half", p.RateBeforeDecreaseBps, p.RateBps)
		}
		return true
	}
	if p.Decisions != before.Policy.Decisions+1 {
		return false
	}
	if p.TrendTxNs <= 0 || p.TrendRxNs >= 0 || p.QueueingTxNs <= 0 || p.QueueingRxNs <= 0 {
		t.Errorf("case 3, and the times changed by %d and %d ns to %d and %d above the original ones",
			p.TrendTxNs, p.TrendRxNs, p.QueueingTxNs, p.QueueingRxNs)
	}
	if fourcase.Action(p.Action) != fourcase.ActionHold || p.RateBps != before.Policy.RateBps {
		t.Errorf("case 3: the rate went from %d to %d bit/s, want the same", before.Policy.RateBps, p.RateBps)
	}
	return true
}

// fill sends UDP datagrams from a host to the other until stop is closed, and closes done
// after the last.
func (l *lab) fill(t *testing.T, from int, load otherLoad, stop <-chan struct{}) (done chan struct{}) {
	t.Helper()
	to := 1 - from
	open := func(host int) (c *net.UDPConn) {
		err := l.top.Host(host + 1).Do(func() (err error) {
			c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(l.addr[host], 0)))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	src, sink := open(from), open(to)
	target := sink.LocalAddr().(*net.UDPAddr).AddrPort()
	done = make(chan struct{})
	const size = 1400
	go func() {
		defer close(done)
		defer src.Close()
		defer sink.Close()
		datagram := make([]byte, size)
		sent, begin := 0, time.Now()
		for {
			due := load.at + int(load.factor*portRate/8*time.Since(begin).Seconds())
			for ; sent < due; sent += size {
				if _, err := src.WriteToUDPAddrPort(datagram, target); err != nil {
					t.Errorf("other traffic: %v", err)
					return
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return done
}

// drained waits until both ports' queues are nearly empty.
func (l *lab) drained(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, "empty queues", func() bool {
		queues, err := l.top.Queues()
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range queues {
			if q.Backlog > 20_000 {
				return false
			}
		}
		return true
	})
}
