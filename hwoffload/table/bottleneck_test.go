// SPDX-License-Identifier: Apache-2.0

package table_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/rtl/sim"
	"github.com/softroce/softroce-xdp/hwoffload/rtl/verilate"
	"github.com/softroce/softroce-xdp/hwoffload/table"
	"github.com/softroce/softroce-xdp/loader/agent"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// path is a destination behind a bottleneck, whose sender always has data. Data is a fluid.
type path struct {
	node     uint32
	capacity float64 // bit/s
	queue    float64 // bytes in front of the bottleneck
	sent     float64 // bytes
	arrived  float64
	echoes   []echo // that have not arrived yet
}

// echo is data that left at t1, and took delay to the receiver.
type echo struct{ t1, delay uint64 }

const (
	base    = 10_000 // ns, each direction
	packet  = 4096   // bytes
	samples = 8      // in a tick
	tick    = 10 * time.Millisecond
)

// simulated is a card whose packets and whose clock are the test's.
type simulated interface {
	hwoffload.Device
	Receive(node int, p *card.Packet, now uint64)
}

// send sends for one tick at the rate in the registers, and lets the feedback arrive.
func (p *path) send(m simulated, now *uint64) {
	d := regs.DestOf(m, int(p.node-1))
	for range samples {
		const dt = tick / samples
		rate, start := float64(d.RateBps()), *now
		*now += uint64(dt)
		bytes := rate / 8 * dt.Seconds()
		if window := float64(d.PolicyWindowBytes()); window > 0 { // of bytes that are not answered
			bytes = min(bytes, max(window-p.queue, 0)+p.capacity/8*dt.Seconds())
		}
		left := min(p.queue+bytes, p.capacity/8*dt.Seconds())
		p.queue, p.sent, p.arrived = p.queue+bytes-left, p.sent+bytes, p.arrived+left
		d.SetTxPackets(uint64(p.sent / packet))
		d.SetTxBytes(uint64(p.sent))
		d.SetLastTxNs(start)
		d.SetWinPaced(d.WinPaced() + 1)
		d.SetWinDueWord(d.WinDueWord().WithWinDue(1))
		p.echoes = append(p.echoes, echo{start, base + uint64(p.queue*8e9/p.capacity)})
		for len(p.echoes) > 0 && p.echoes[0].t1+p.echoes[0].delay+base <= *now {
			f, at := feedback(p.echoes[0].t1, p.echoes[0].delay, base)
			m.Receive(int(p.node), f, at)
			p.echoes = p.echoes[1:]
		}
	}
}

// The agent's policy loop drives the model of a card through a bottleneck.
func TestBottleneck(t *testing.T) {
	now := uint64(0)
	testBottleneck(t, card.NewAt(func() uint64 { return now }), func(t uint64) { now = t }, 500)
}

// The same loop drives the simulated RTL.
func TestBottleneckRTL(t *testing.T) {
	require.Command(t, verilate.Programs...)
	c, err := sim.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	testBottleneck(t, c, func(now uint64) { c.SetClock(now, 0) }, 150)
	if c.Err() != nil {
		t.Error(c.Err())
	}
}

// The rate of the destination behind the bottleneck follows it, without a queue that lasts, and
// the destination behind another port keeps the whole link (S1.6, S1.9). ticks is how many
// evaluations each phase takes.
func testBottleneck(t *testing.T, m simulated, setClock func(now uint64), ticks int) {
	now := uint64(time.Hour)
	setClock(now)
	tab := open(t, m)
	if err := tab.SetNodes(1, []table.Node{{1, addr(1), 0}, {2, addr(2), 0}, {3, addr(3), 1}}); err != nil {
		t.Fatal(err)
	}
	params := fourcase.DefaultParams(100e9)
	params.IntervalNs = uint64(tick)
	if err := tab.SetParams(*paramsFrom(params)); err != nil {
		t.Fatal(err)
	}
	a, err := agent.NewCardAgent(tab, agent.CardOptions{Ports: []agent.CardPort{tab.Port(0), tab.Port(1)}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	slow, fast := &path{node: 2, capacity: 10e9}, &path{node: 3, capacity: 200e9}
	for _, p := range []*path{slow, fast} {
		d := regs.DestOf(m, int(p.node-1))
		d.SetRxToken(token)
		if d.Node() != p.node || d.RateBps() != 100e9 {
			t.Fatalf("node %d has rate %d, and number %d, at the start", p.node, d.RateBps(), d.Node())
		}
	}
	run := func(ticks int) (goodput float64, queue time.Duration) {
		before, start := slow.arrived, now
		for range ticks {
			at := now
			slow.send(m, &now)
			now = at
			fast.send(m, &now)
			setClock(now)
			if n, err := a.Evaluate(); err != nil || n == 0 {
				t.Fatalf("%d evaluated, %v", n, err)
			}
			queue = max(queue, time.Duration(slow.queue*8e9/slow.capacity))
		}
		return (slow.arrived - before) * 8e9 / float64(now-start), queue
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
	slow.capacity = 2e9
	run(ticks)
	if goodput, queue = run(ticks); goodput < 1.6e9 || regs.DestOf(m, 1).RateBps() > 3e9 {
		t.Errorf("%.2f Gbit/s arrive through a bottleneck of 2, rate %d, queue %v", goodput/1e9, regs.DestOf(m, 1).RateBps(), queue)
	}
	slow.capacity = 10e9
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
