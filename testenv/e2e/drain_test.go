// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/experiments/rates"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// TestDataFirst: a sender at full speed has filled the queue before anybody says
// HELLO, so that the first sample of all comes through it. All the same the queue
// comes below half of what it is without the policy: a pause finds out what is queue.
// Where time is judged, half a second later; without the pause the policy takes a
// second or more.
func TestDataFirst(t *testing.T) {
	topo.RequireRoot(t)
	const settle, measure = 500 * time.Millisecond, 300 * time.Millisecond
	for range require.Tries(3) {
		l := newDataFirst(t)
		var table [2]*loader.Attachment
		for i, n := range l.nodes[:2] {
			n.must(t, "attach", topo.IfName, "--rate", "1G", "--heartbeat-timeout", "1m")
			table[i] = n.open(t)
			// HTB shall be there before what we look at: its coming loses packets, and
			// that drains queues too.
			l.send(t, i, 2, load.Flow{Bytes: 1, MessageBytes: 1})
			testkit.Eventually(t, "the pacer at work", func() bool { return l.regs(t, table[i], 2).ClassId != 0 })
		}
		a := table[0]
		// Nobody says HELLO before the queue is full.
		l.nodes[0].killAgent(t)
		ctx, cancel := context.WithCancel(t.Context())
		sent := make(chan error, 1)
		go func() {
			_, err := l.ends[0].Send(ctx, load.Flow{To: l.addr(1), Window: 256, MinRTO: time.Second, GiveUp: testkit.Patience})
			sent <- err
		}()
		var without float64 // of a second in which the sender does not stall, which would drain the queue
		testkit.Eventually(t, "a full queue", func() bool {
			without, _ = l.meanQueue(t, time.Second)
			return without > 50_000
		})

		l.nodes[0].must(t, "attach", topo.IfName)
		testkit.Eventually(t, "an answer to HELLO", func() bool {
			d := l.regs(t, a, 1)
			return d.Caps&bpf.CapStamp != 0 && d.Policy.Decisions > 0
		})
		time.Sleep(settle)
		with, full := l.meanQueue(t, measure)
		base := time.Duration(l.regs(t, a, 1).Policy.BaseRttNs)
		t.Logf("mean queue %.1f kB, without the policy %.1f; bottleneck %.0f %% full; baseline of the round trip %v", with/1e3, without/1e3, 100*full, base)
		if with > without/2 {
			require.Missed(t, "mean queue %.1f kB, without the policy %.1f", with/1e3, without/1e3)
		}
		if full < 0.2 { // the rate came from above, and increases again
			require.Missed(t, "the bottleneck is %.0f %% full", 100*full)
		}
		testkit.Eventually(t, "a decrease of the rate", func() bool {
			d := l.regs(t, a, 1)
			return rates.Decreased(&d)
		})
		testkit.Eventually(t, "half of the queue that is there without the policy", func() bool {
			with, _ = l.meanQueue(t, measure)
			return with < without/2
		})
		cancel()
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
}

// dataFirst is a sender and two receivers, the first behind 100 Mbit/s.
type dataFirst struct {
	top   *topo.Topology
	ends  [3]*load.Endpoint
	nodes [3]*node
}

const dataFirstRate = 100_000_000

func newDataFirst(t *testing.T) *dataFirst {
	t.Helper()
	l := &dataFirst{top: topo.ForTest(t, topo.Spec{StaticNeighbours: true, Hosts: []topo.HostSpec{
		{}, {Bottleneck: &topo.Bottleneck{RateBPS: dataFirstRate, Limit: 1 << 20, BurstTime: 2 * time.Millisecond}}, {},
	}})}
	for i, h := range l.top.Hosts() {
		ep, err := load.Open(load.Config{Local: h.IPv4(), Do: h.Do})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ep.Close() })
		l.ends[i], l.nodes[i] = ep, newNode(t, h)
	}
	return l
}

func (l *dataFirst) addr(i int) netip.Addr { return l.top.Host(i + 1).IPv4() }

func (l *dataFirst) send(t *testing.T, from, to int, f load.Flow) {
	t.Helper()
	f.To, f.GiveUp = l.addr(to), testkit.Patience
	if _, err := l.ends[from].Send(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

func (l *dataFirst) regs(t *testing.T, a *loader.Attachment, i int) bpf.DestRegs {
	t.Helper()
	r, _, err := a.Lookup(l.addr(i))
	if err != nil {
		t.Fatal(err)
	}
	return r.Regs
}

func (l *dataFirst) queue(t *testing.T) topo.QueueStats {
	t.Helper()
	q, err := l.top.Host(2).Port().Queue()
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// meanQueue is the bottleneck's backlog in bytes, and how full it runs.
func (l *dataFirst) meanQueue(t *testing.T, d time.Duration) (bytes, full float64) {
	t.Helper()
	first := l.queue(t)
	last, n := first, 0
	for start := time.Now(); time.Since(start) < d; time.Sleep(2 * time.Millisecond) {
		last = l.queue(t)
		bytes += float64(last.Backlog)
		n++
	}
	return bytes / float64(n), float64(last.Sent-first.Sent) * 8 / last.At.Sub(first.At).Seconds() / dataFirstRate
}
