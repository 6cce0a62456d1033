// SPDX-License-Identifier: Apache-2.0

package ooobench

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Impossible flags are refused, with what is allowed.
func TestRailsFlags(t *testing.T) {
	good := railsConfig{rates: []float64{1, 2}, size: 1024, outstanding: 1, each: time.Second, dead: time.Second}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*railsConfig){
		"--rates [1]":     func(c *railsConfig) { c.rates = []float64{1} },
		"--rates [0 1]":   func(c *railsConfig) { c.rates = []float64{0, 1} },
		"--size 8":        func(c *railsConfig) { c.size = 8 },
		"--outstanding 0": func(c *railsConfig) { c.outstanding = 0 },
		"--time and":      func(c *railsConfig) { c.each = 0 },
		"and --dead must": func(c *railsConfig) { c.dead = 0 },
		"--deaths not":    func(c *railsConfig) { c.deaths = -1 },
	} {
		c := good
		change(&c)
		if err := c.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Each goal that is missed is named, and no other.
func TestRailsGoals(t *testing.T) {
	c := railsConfig{rates: []float64{100, 300}, size: 16 << 10, outstanding: 8, deaths: 3}
	carry := func(a, b, payload float64) carrier { return carrier{[2]float64{a, b}, payload} }
	r := results{
		shares: []shares{{pairs: 1, both: carry(80, 300, 351)}, {pairs: 4, both: carry(99, 280, 340)}},
		deaths: [2]deaths{
			{rto: []float64{8, 10, 8}, gap: []float64{24, 30, 24}, slowest: []float64{24, 1, 1}, resent: []float64{1, 1, 1}, posted: 7, notified: 7},
			{rto: []float64{8, 10, 8}, gap: []float64{25, 31, 1}, slowest: []float64{1, 32, 26}, resent: []float64{1, 0, 1}, posted: 7, notified: 6},
		},
	}
	want := []string{
		"4 queue pairs: 379.0 Mbit/s of frames, want 0.95 of 400",
		"4 queue pairs: 340.0 Mbit/s of payload, want 0.95 of 368.6",
		"interface 1 dies: 7 messages posted, 6 notifications",
		"interface 1 dies: 3.12 RTOs without a notification, want 3",
		"interface 1 dies: a message takes 3.25 RTOs, want 3",
		"interface 1 dies: once no packet was sent again, so none was in flight",
	}
	if got := texts(r.goals(c).Unmet()); got != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	var text strings.Builder
	report := compare.NewReport(&text)
	r.report(report, c)
	if report.Err() == nil {
		t.Error("no goal is missed")
	}
	for _, line := range []string{"MISSED  " + want[0], "          1 |          80.0  300.0 380.0 0.950 |   351.0   0.952 |", "| 7 6\n"} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("no %q in\n%s", line, text.String())
		}
	}
}

// The longest time without a notification has both ends of the span.
func TestLongest(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	var l load
	for _, ms := range []int{1, 15, 18, 26, 90} {
		l.list = append(l.list, notification{at(ms), time.Duration(100-ms) * time.Millisecond})
	}
	// A message is posted after 5 ms, and was not notified: at 95 ms it is the slowest one.
	l.slots = make([][Slots]slot, 1)
	l.slots[0][3] = slot{at: at(5)}
	l.slots[0][4] = slot{at: at(0), known: [2]bool{false, true}}
	for _, c := range []struct{ to, gap, slowest int }{{30, 8, 85}, {40, 14, 85}, {95, 64, 90}} {
		if gap, slowest := l.longest(at(10), at(c.to)); gap != time.Duration(c.gap)*time.Millisecond || slowest != time.Duration(c.slowest)*time.Millisecond {
			t.Errorf("until %d ms: %v, %v", c.to, gap, slowest)
		}
	}
}

// Both interfaces carry messages, each of them alone does, and each message is notified once while they die.
func TestHosts(t *testing.T) {
	topo.RequireRoot(t)
	bin, err := engines.Binary()
	if err != nil {
		t.Fatal(err)
	}
	c := railsConfig{bin: bin, rates: []float64{10, 30}, size: 4096, outstanding: 16, each: 200 * time.Millisecond, deaths: 1, dead: 200 * time.Millisecond}
	r, closeAll, err := newRails(c)
	defer func() {
		if err := closeAll(); err != nil {
			t.Error(err)
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	// A machine that stalls has nothing, or what came before, arrive within a fifth of a second.
	var seen stalls
	testkit.Eventually(t, "messages by both interfaces and by each alone, within its rate", func() error {
		s, err := measureShares(t.Context(), r, c, 2)
		if err != nil {
			return seen.excuse(t, err)
		}
		for rail, alone := range s.alone {
			if alone.payload == 0 || alone.payload > 1.1*c.rates[rail] || s.both.payload == 0 {
				return fmt.Errorf("interface %d alone, of %g Mbit/s: %+v", rail, c.rates[rail], s)
			}
		}
		return nil
	})
	for rail := range c.rates {
		var seen stalls
		testkit.Eventually(t, fmt.Sprintf("messages are sent again after interface %d has died", rail), func() error {
			d, err := measureDeaths(t.Context(), r, c, rail)
			if err != nil {
				return seen.excuse(t, err)
			}
			if d.posted == 0 || d.posted != d.notified || len(d.rto) != 1 || d.rto[0] == 0 {
				t.Fatalf("interface %d: %+v", rail, d)
			}
			if d.resent[0] == 0 {
				return fmt.Errorf("%+v", d)
			}
			return nil
		})
	}
}
