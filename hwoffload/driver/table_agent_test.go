// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/priority"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

func options(tab *driver.Table) driver.AgentOptions {
	return driver.AgentOptions{
		Ports: []driver.AgentPort{tab.Port(0), tab.Port(1)}, Log: slog.New(slog.DiscardHandler),
		Ready: func() {}, Beat: func() {},
	}
}

// A new entry starts at the even share of its port (S1.2), without a sample. One that an agent
// had keeps its rate, and a node that is added later is noticed.
func TestNewEntries(t *testing.T) {
	m := card.New()
	tab := openTable(t, m)
	list := []driver.Node{{1, addr(1), 0}, {2, addr(2), 0}, {3, addr(3), 0}, {4, addr(4), 1}}
	if err := tab.SetNodes(1, list); err != nil {
		t.Fatal(err)
	}
	had := regs.DestOf(m, 3-1)
	had.SetNode(3)
	had.SetRateBps(7e9)
	a, err := driver.NewAgent(tab, options(tab))
	if err != nil {
		t.Fatal(err)
	}
	check := func(node int, rate uint64) {
		t.Helper()
		d := regs.DestOf(m, node-1)
		if d.RateBps() != rate || int(d.Node()) != node {
			t.Errorf("node %d has number %d and rate %d, want %d", node, d.Node(), d.RateBps(), rate)
		}
		if node != 3 && (d.PolicyRateBps() != rate || d.StackRateBps() != rate || d.WinTxNs() != bpf.NoSample || d.PolicyWindowBytes() == 0) {
			t.Errorf("node %d: policy %d, stack %d, window %d, %d bytes", node, d.PolicyRateBps(), d.StackRateBps(), d.WinTxNs(), d.PolicyWindowBytes())
		}
	}
	check(2, 50e9)
	check(3, 7e9)
	check(4, 100e9)
	regs.DestOf(m, 0).SetQueuedWord(regs.DestQueuedWord(0).WithQueued(1))
	if n, err := a.Evaluate(); n != 0 || err != nil {
		t.Errorf("%d destinations are evaluated, %v", n, err)
	}
	if d := regs.DestOf(m, 0); d.Node() != 0 || d.RateBps() != 0 {
		t.Errorf("the entry of this node has number %d and rate %d", d.Node(), d.RateBps())
	}
	if err := openTable(t, m).SetNodes(1, append(list, driver.Node{Number: 9, Addr: addr(9), Port: 1})); err != nil {
		t.Fatal(err)
	}
	if err := a.Follow(); err != nil {
		t.Fatal(err)
	}
	check(9, 50e9)
	check(2, 50e9)
}

// Destinations behind different ports share no link, so each port has priorities of its own.
func TestSharerOfEachPort(t *testing.T) {
	tab := openTable(t, card.New())
	if err := tab.SetNodes(1, []driver.Node{{2, addr(2), 0}, {3, addr(3), 1}}); err != nil {
		t.Fatal(err)
	}
	o, sharers := options(tab), 0
	o.Sharer = func() *priority.Sharer { sharers++; return priority.NewSharer() }
	if _, err := driver.NewAgent(tab, o); err != nil {
		t.Fatal(err)
	}
	if sharers != len(o.Ports) {
		t.Errorf("%d sharers for %d ports", sharers, len(o.Ports))
	}
}

// Parameters that do not fit together end the agent, and say where they are.
func TestBadParams(t *testing.T) {
	m := card.New()
	tab := openTable(t, m)
	if err := tab.SetNodes(1, []driver.Node{{2, addr(2), 0}}); err != nil {
		t.Fatal(err)
	}
	a, err := driver.NewAgent(tab, options(tab))
	if err != nil {
		t.Fatal(err)
	}
	regs.FourcaseOf(m).SetMaxRateBps(1)
	var bad *fourcase.ParamError
	if _, err := a.Evaluate(); !errors.As(err, &bad) || !strings.Contains(err.Error(), "block fourcase of the card") {
		t.Errorf("error %v", err)
	}
	if _, err := driver.NewAgent(tab, options(tab)); !errors.As(err, &bad) {
		t.Errorf("error %v", err)
	}
}

// The agent ends without an error when it is told to, and with one when the card fails.
func TestRunCardEnds(t *testing.T) {
	for _, fail := range []bool{false, true} {
		m := card.New()
		tab := openTable(t, m)
		ctx, stop := context.WithCancel(t.Context())
		o, beats := options(tab), 0
		o.Beat = func() {
			if beats++; beats < 3 {
				return
			}
			if fail {
				m.Set(errors.New("the simulator has ended"))
			} else {
				stop()
			}
		}
		err := driver.RunAgent(ctx, tab, o)
		stop()
		if fail == (err == nil) || fail && !strings.Contains(err.Error(), "the simulator has ended") || beats < 3 {
			t.Errorf("fails %t: %v after %d ticks", fail, err, beats)
		}
	}
}
