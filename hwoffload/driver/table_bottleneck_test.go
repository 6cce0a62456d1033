// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/rtl"
	"github.com/softroce/softroce-xdp/hwoffload/vectors"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

const tick = 10 * time.Millisecond

// The agent's policy loop drives the model of a card through a bottleneck.
func TestBottleneck(t *testing.T) {
	now := uint64(0)
	testBottleneck(t, card.NewAt(func() uint64 { return now }), func(t uint64) { now = t }, 500)
}

// The same loop drives the simulated RTL.
func TestBottleneckRTL(t *testing.T) {
	require.Command(t, rtl.Programs...)
	c, err := rtl.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	testBottleneck(t, c, func(now uint64) { c.SetClock(now, false) }, 150)
	if c.Err() != nil {
		t.Error(c.Err())
	}
}

// The rate of the destination behind the bottleneck follows it, without a queue that lasts, and
// the destination behind another port keeps the whole link (S1.6, S1.9). ticks is how many
// evaluations each phase takes.
func testBottleneck(t *testing.T, m vectors.ClockedCard, setClock func(now uint64), ticks int) {
	now := uint64(time.Hour)
	setClock(now)
	tab := openTable(t, m)
	if err := tab.SetNodes(1, []driver.Node{{1, addr(1), 0}, {2, addr(2), 0}, {3, addr(3), 1}}); err != nil {
		t.Fatal(err)
	}
	params := fourcase.DefaultParams(100e9)
	params.IntervalNs = uint64(tick)
	if err := tab.SetParams(*paramsFrom(params)); err != nil {
		t.Fatal(err)
	}
	a, err := driver.NewAgent(tab, driver.AgentOptions{Ports: []driver.AgentPort{tab.Port(0), tab.Port(1)}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	slow, fast := &vectors.Path{Node: 2, Capacity: 10e9, Token: token}, &vectors.Path{Node: 3, Capacity: 200e9, Token: token}
	for _, p := range []*vectors.Path{slow, fast} {
		d := regs.DestOf(m, p.Node-1)
		d.SetRxToken(token)
		if d.Node() != uint32(p.Node) || d.RateBps() != 100e9 {
			t.Fatalf("node %d has rate %d, and number %d, at the start", p.Node, d.RateBps(), d.Node())
		}
	}
	run := func(ticks int) (goodput float64, queue time.Duration) {
		before, start := slow.Arrived, now
		for range ticks {
			slow.Send(m, now, tick)
			now = fast.Send(m, now, tick)
			setClock(now)
			if n, err := a.Evaluate(); err != nil || n == 0 {
				t.Fatalf("%d evaluated, %v", n, err)
			}
			queue = max(queue, slow.Delay())
		}
		return (slow.Arrived - before) * 8e9 / float64(now-start), queue
	}
	run(ticks)
	goodput, queue := run(ticks)
	if goodput < 8e9 || queue > 2*time.Millisecond {
		t.Errorf("%.2f Gbit/s arrive through a bottleneck of 10, with a queue of up to %v", goodput/1e9, queue)
	}
	if rate := regs.DestOf(m, 2).RateBps(); rate != 100e9 {
		t.Errorf("the destination behind the other port has %d bit/s", rate)
	}
	t.Logf("%.2f Gbit/s of 10, queue up to %v", goodput/1e9, queue)

	// The bottleneck gets narrower, and wider again.
	slow.Capacity = 2e9
	run(ticks)
	if goodput, queue = run(ticks); goodput < 1.6e9 || regs.DestOf(m, 1).RateBps() > 3e9 {
		t.Errorf("%.2f Gbit/s arrive through a bottleneck of 2, rate %d, queue %v", goodput/1e9, regs.DestOf(m, 1).RateBps(), queue)
	}
	slow.Capacity = 10e9
	run(4 * ticks)
	if goodput, _ = run(ticks); goodput < 8e9 {
		t.Errorf("%.2f Gbit/s arrive through a bottleneck of 10 that was narrower", goodput/1e9)
	}
	d := regs.DestOf(m, 1)
	t.Logf("%.2f Gbit/s of 10 afterwards; %d decisions, %d decreases", goodput/1e9, d.PolicyDecisions(), d.PolicyDecreases())
	if d.PolicyDecreases() == 0 {
		t.Error("no decision decreased the rate")
	}
}
