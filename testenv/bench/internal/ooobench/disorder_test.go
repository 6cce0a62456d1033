// SPDX-License-Identifier: Apache-2.0

package ooobench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/faults"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

func TestMain(m *testing.M) { engines.Main(m) }

// Impossible flags are refused, with what is allowed.
func TestDisorderFlags(t *testing.T) {
	good := disorderConfig{rate: 100, size: 1024, each: time.Second, rounds: 1}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*disorderConfig){
		"--rate 0":          func(c *disorderConfig) { c.rate = 0 },
		"--size 8":          func(c *disorderConfig) { c.size = 8 },
		"--time must":       func(c *disorderConfig) { c.each = time.Millisecond },
		"choose 0 to 90":    func(c *disorderConfig) { c.losses = []float64{100} },
		"-1 percent":        func(c *disorderConfig) { c.reorders = []float64{-1} },
		"--rounds 1":        func(c *disorderConfig) { c.rounds = 0 },
		"and --delay not n": func(c *disorderConfig) { c.delay = -1 },
	} {
		c := good
		change(&c)
		if err := c.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// made returns the rounds of a contender with a goodput in Mbit/s and completion times in us, that sent so many
// packets for 1000.
func made(goodput int, us float64, packets uint64) rounds {
	var x round
	for i := range disorderLoads {
		r := &result{size: 1e6 / 8, arrived: goodput, over: time.Second, packets: packets, again: packets - 1000}
		r.ends[0], r.ends[1] = []float64{1e3 * us}, []float64{1e3 * us}
		x.byLoad[i] = r
	}
	return rounds{x}
}

// texts are lines with the texts of goals.
func texts(all compare.Goals) string {
	var lines []string
	for _, g := range all {
		lines = append(lines, g.Text)
	}
	return strings.Join(lines, "\n")
}

// Each goal that is missed is named, and no other.
func TestDisorderGoals(t *testing.T) {
	rows := []disorderRow{
		{loss: 0, reorder: 0, of: [disorderContenders]rounds{made(100, 50, 1000), made(101, 50, 1000), made(100, 50, 1000), made(101, 50, 1000)}},
		{loss: 1, reorder: 50, of: [disorderContenders]rounds{made(93, 50, 1100), made(80, 99, 1000), made(10, 99, 2000), made(79, 50, 1000)}},
		{loss: 5, reorder: 50, of: [disorderContenders]rounds{made(93, 50, 1101), made(80, 101, 1000), made(10, 99, 2000), made(93, 50, 1000)}},
	}
	want := []string{
		"loss 0 %, reordering 0 %: goodput 100 Mbit/s, RC with SACK has 101",
		"loss 1 %, reordering 50 %: 0.93 of the goodput without loss, want 0.94",
		"loss 1 %, reordering 50 %: goodput 79 Mbit/s with packets of the MTU, RC with SACK has 80",
		"loss 1 %, reordering 50 %: p99 50 us at full load, RC with SACK has 99",
		"loss 1 %, reordering 50 %: p99 50 us at 40 % load, RC with SACK has 99",
		"loss 1 %, reordering 50 %: p99 50 us at 80 % load, RC with SACK has 99",
		"loss 5 %, reordering 50 %: 1.101 packets sent per packet delivered, want 1.1",
	}
	if got := texts(disorderGoals(rows).Unmet()); got != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// stalls counts the runs in which a queue pair has ended because its retries did: its timeouts are so short that this
// happens when a machine stalls.
type stalls int

// excuse returns the error of such a run. Every other error ends the test, and so does one stall too many.
func (s *stalls) excuse(t *testing.T, err error) error {
	t.Helper()
	const most = 4
	if *s++; *s > most || !stalled(err) {
		t.Fatalf("run %d with an error: %v", *s, err)
	}
	return err
}

// stalled reports whether all that has failed are messages whose retries ended, or that were flushed then.
func stalled(err error) bool {
	for s := verbs.StatusSuccess; s <= verbs.StatusFatal; s++ {
		if s != verbs.StatusRetryExceeded && s != verbs.StatusWRFlushed && errors.Is(err, s) {
			return false
		}
	}
	return errors.Is(err, ErrStatus) && !errors.Is(err, ErrEarly) && !errors.Is(err, ErrTwice)
}

// Only the end of retries is taken for a stall.
func TestStalled(t *testing.T) {
	p := Pair{Config: Config{Name: "pair"}}
	status := func(s verbs.Status) error {
		_, err := p.Check(0, &verbs.Completion{Status: s})
		return err
	}
	exceeded, flushed := status(verbs.StatusRetryExceeded), status(verbs.StatusWRFlushed)
	for _, c := range []struct {
		err  error
		want bool
	}{
		{exceeded, true},
		{flushed, true},
		{errors.Join(exceeded, flushed), true},
		{status(verbs.StatusRemoteAccess), false},
		{status(verbs.StatusRNRRetryExceeded), false},
		{errors.Join(exceeded, status(verbs.StatusFatal)), false},
		{errors.Join(exceeded, ErrTwice), false},
		{errors.Join(ErrEarly, flushed), false},
		{context.DeadlineExceeded, false},
	} {
		if got := stalled(c.err); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
}

// Each contender delivers messages over the box, and negotiates what it is named for.
func TestContenders(t *testing.T) {
	topo.RequireRoot(t)
	bin, err := engines.Binary()
	if err != nil {
		t.Fatal(err)
	}
	n, err := newNetwork(disorderConfig{bin: bin, rate: 50}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.close(); err != nil {
			t.Error(err)
		}
	}()
	for _, who := range disorderContend {
		before := n.box.Counts()
		tr := traffic{outstanding: 4, length: 200 * time.Millisecond}
		var seen stalls
		testkit.Eventually(t, who.name+" delivers messages", func() error {
			r, err := once(t.Context(), n, who, faults.Spec{Loss: .01, Delayed: .1, Delay: 100 * time.Microsecond}, tr, 4096, 1)
			if err != nil {
				return seen.excuse(t, err)
			}
			if len(r.ends[0]) == 0 || len(r.ends[1]) == 0 || r.packets == 0 {
				return fmt.Errorf("%+v", r)
			}
			return nil
		})
		c := n.box.Counts()
		for op := range c.Opcodes {
			c.Opcodes[op] -= before.Opcodes[op]
		}
		for name, used := range map[string]bool{"OACK": c.Opcodes[0xCC] > 0, "ACK": c.Opcodes[0x11] > 0} {
			if used != (who.outOfOrder == (name == "OACK")) {
				t.Errorf("%s: packets with %s: %v", who.name, name, used)
			}
		}
	}
}
