// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// drawn makes choices with rapid, which shrinks what fails.
type drawn struct{ t *rapid.T }

func (d drawn) Choose(label string, n int) int { return rapid.IntRange(0, n-1).Draw(d.t, label) }

func check(t *testing.T, l Limits, more ...func(*World) error) {
	rapid.Check(t, func(t *rapid.T) {
		s := Draw(drawn{t}, l)
		w := Build(s)
		var trace strings.Builder
		w.Trace = &trace
		err := w.Finish()
		for _, f := range more {
			if err == nil {
				err = f(w)
			}
		}
		if err != nil {
			t.Fatalf("%v\n%v%s", err, s, last(trace.String(), 6000))
		}
	})
}

// last returns the last lines of s, about n bytes of them.
func last(s string, n int) string {
	if len(s) > n {
		s = s[len(s)-n:]
		_, s, _ = strings.Cut(s, "\n")
	}
	return s
}

// On a perfect wire, whatever two applications ask for happens as the model says, and
// nothing is sent twice, as long as there are receives; nor does anything time out.
func TestPerfectWire(t *testing.T) {
	check(t, Limits{Type: verbs.RC, Pairs: 2, Ops: 12, MaxLen: maxMessage}, func(w *World) error {
		for _, n := range w.Nodes {
			c := n.Count
			if c.Timeouts != 0 || c.RNRReceived+c.RNRSent == 0 && (c.SentAgain != 0 || c.TailProbes != 0) {
				return fmt.Errorf("%s: %+v", n.Name, c)
			}
		}
		return nil
	})
}

// It does so too when packets are lost, doubled, overtaken, late and damaged.
func TestFaultyWire(t *testing.T) {
	check(t, Limits{Type: verbs.RC, Pairs: 2, Ops: 25, MaxLen: 16384, Faults: 50})
}

// UC loses whole messages, and nothing else.
func TestUnreliableConnection(t *testing.T) {
	check(t, Limits{Type: verbs.UC, Pairs: 2, Ops: 40, MaxLen: 16384, Faults: 50})
}

// UD delivers datagrams whole, to the right queue pair, with their sender.
func TestDatagrams(t *testing.T) {
	check(t, Limits{Type: verbs.UD, Pairs: 3, Ops: 40, Faults: 50})
}

var (
	longSeed = flag.Uint64("wire.seed", 0, "run one scenario of TestLongRun, the one with this seed")
	longOps  = flag.Int("wire.ops", 100_000, "operations of TestLongRun")
)

// A hundred thousand random operations, in scenarios of some hundred each. A failure
// names its seed: go test -run TestLongRun -wire.seed N.
func TestLongRun(t *testing.T) {
	total, packets, lost, again := 0, 0, 0, uint64(0)
	start := time.Now()
	want := *longOps
	if testing.Short() {
		want /= 20
	}
	one := func(seed uint64) {
		s := Draw(Seeded(seed), longLimits(seed))
		w := Build(s)
		var trace strings.Builder
		if *longSeed != 0 {
			w.Trace = &trace
		}
		if err := w.Finish(); err != nil {
			t.Fatalf("-wire.seed %d: %v\n%v%s%+v\n%+v", seed, err, s, last(trace.String(), 20000), w.Nodes[0].Count, w.Nodes[1].Count)
		}
		total += s.Count()
		for side, n := range w.Nodes {
			p := n.PathTo(w.Nodes[1-side])
			packets += p.Sent
			lost += p.Lost
			again += n.Count.SentAgain
		}
	}
	if *longSeed != 0 {
		one(*longSeed)
		return
	}
	for seed := uint64(1); total < want; seed++ {
		one(seed)
	}
	t.Logf("%d operations, %d packets, %d lost, %d sent again, %v",
		total, packets, lost, again, time.Since(start).Round(time.Millisecond))
}

func longLimits(seed uint64) Limits {
	l := Limits{Type: verbs.RC, Pairs: 3, Ops: 120, Exact: true, MaxLen: maxMessage, Faults: int(seed%4) * 15}
	switch seed % 10 {
	case 8:
		l.Type, l.MaxLen = verbs.UC, 16384
	case 9:
		l.Type = verbs.UD
	}
	return l
}
