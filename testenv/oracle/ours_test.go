// SPDX-License-Identifier: Apache-2.0

package oracle_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
	"github.com/softroce/softroce-xdp/testenv/oracle"
	"github.com/softroce/softroce-xdp/testenv/oracle/sides"
)

// engineMTU lets a PMTU of 4096 fit.
const engineMTU = 4200

var attached struct {
	sync.Once
	side *sides.EngineSide
	err  error
}

// engineAndJudge attaches the product on the machines' bridge, once for all tests.
func engineAndJudge(t *testing.T) (context.Context, *oracle.Pair, *sides.EngineSide) {
	t.Helper()
	ctx, p := oracle.Machines(t)
	attached.Do(func() {
		var host *rxepeer.Host
		host, attached.err = p.Net().AddHost(rxepeer.HostConfig{
			Name: "engine", MTU: engineMTU,
			Addrs: []netip.Prefix{netip.MustParsePrefix("10.78.0.9/24"), netip.MustParsePrefix("fd78::9/64")},
		})
		if attached.err != nil {
			return
		}
		p.Guest(func() error {
			var err error
			if attached.side != nil {
				err = attached.side.Close()
			}
			engines.RemoveBinary()
			return errors.Join(err, host.Close())
		})
		attached.side, attached.err = sides.AttachEngine(host)
	})
	if attached.err != nil {
		t.Fatal(attached.err)
	}
	return ctx, p, attached.side
}

// against is a bench of our engine, side A, and rxe.
func against(t *testing.T) (context.Context, *oracle.Pair, *sides.EngineSide, *oracle.Bench) {
	t.Helper()
	ctx, p, us := engineAndJudge(t)
	b := &oracle.Bench{A: us, B: p.Judge(), Impair: oracle.ImpairBetween(p.Judge().VM)}
	b.HostDrops = func() (uint64, error) {
		sum, err := p.HostDrops()
		for _, name := range []string{"rx_xsk_ring_full", "rx_xsk_fill_empty"} { // the engine's thread did not run
			n, cerr := us.Counter(name)
			sum, err = sum+n, errors.Join(err, cerr)
		}
		return sum, err
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			for _, c := range us.Dev.Counters() {
				if c.Value != 0 {
					t.Logf("%-30s %d", c.Name, c.Value)
				}
			}
			t.Log(us.Log())
		}
	})
	return ctx, p, us, b
}

// full reports whether `make judge` wants everything, and not what CI has time for.
func full() bool { return os.Getenv(oracle.FullEnv) != "" }

// TestEngineAgainstRxe is the table with our engine as side A and Linux rxe as side B, each as
// requester and as responder.
func TestEngineAgainstRxe(t *testing.T) {
	ctx, _, _, b := against(t)
	cases := oracle.QuickCases()
	if full() {
		cases = oracle.Cases()
	}
	oracle.RunTable(ctx, t, b, cases)
}

// TestEngineRefusals has each refuse what it must, asked by the other.
func TestEngineRefusals(t *testing.T) {
	ctx, _, _, b := against(t)
	for _, r := range oracle.Refusals() {
		for _, fromB := range []bool{false, true} {
			t.Run(direction(fromB)+"/"+r.Name, func(t *testing.T) {
				err := b.Refuse(ctx, r, fromB)
				if fromB && errors.Is(err, oracle.ErrNotSent) {
					t.Log(err) // rxe's library stops it: our responder has wire tests of its own for this
					return
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func direction(fromB bool) string {
	if fromB {
		return "rxe asks"
	}
	return "engine asks"
}

// TestEngineScenarios runs the courses of events both ways.
func TestEngineScenarios(t *testing.T) {
	ctx, p, us, _ := against(t)
	for _, s := range oracle.Scenarios() {
		t.Run(direction(false)+"/"+s.Name, func(t *testing.T) {
			if err := s.Run(ctx, us, p.Judge()); err != nil {
				t.Error(err)
			}
		})
		if s.ByEngine {
			continue
		}
		t.Run(direction(true)+"/"+s.Name, func(t *testing.T) {
			if err := s.Run(ctx, p.Judge(), us); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEngineEfficiency measures how often packets towards rxe's responder, which takes them in order
// only, are sent: by our engine and, in the same run, by rxe.
func TestEngineEfficiency(t *testing.T) {
	ctx, p, us, b := against(t)
	const size, depth = 65536, 16
	count := 16
	if full() {
		count = 64
	}
	link := oracle.Link{Service: verbs.RC, PMTU: rocev2.PMTU1024}
	sent := func(context.Context) (uint64, error) { return us.Counter("tx_data_pkts") }
	for _, tc := range []struct {
		netem string
		top   float64 // largest number of packets per delivered one: without loss 1, but for the probes of a tail
	}{{"", 1.02}, {"loss 1%", 2}, {"loss 5%", 2}} {
		t.Run("netem "+tc.netem, func(t *testing.T) {
			link.Netem = tc.netem
			show := func(who string, e oracle.Efficiency) {
				t.Logf("%-6s %d packets delivered, %d sent: %.3f sent per packet delivered, in %v",
					who, e.Delivered, e.Sent, e.PerDelivered(), e.Run.Took.Round(time.Millisecond))
			}
			var ours oracle.Efficiency
			var err error
			// A machine that is paused is probed, and is sent again what it has not answered yet. An
			// engine that sends too much does so every time.
			for range 10 {
				if ours, err = b.Efficiency(ctx, link, false, size, count, depth, sent); err != nil {
					t.Fatal(err)
				}
				show("engine", ours)
				if ours.PerDelivered() <= tc.top {
					break
				}
			}
			if err := b.Close(); err != nil { // takes the impairment away
				t.Fatal(err)
			}
			pair := p.Bench(t)
			theirs, err := pair.Efficiency(ctx, link, false, size, count, depth, oracle.SentBy(p.Judge()))
			if err != nil {
				t.Fatal(err)
			}
			show("rxe", theirs)
			if err := pair.Close(); err != nil {
				t.Fatal(err)
			}
			if got := ours.PerDelivered(); got < 1 || got > tc.top {
				t.Errorf("the engine sent %.3f packets per packet delivered, want %v at most", got, tc.top)
			}
		})
	}
}
