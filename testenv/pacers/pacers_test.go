// SPDX-License-Identifier: Apache-2.0

package pacers

import (
	"context"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/testenv/engines"
	"github.com/softroce/softroce-xdp/testenv/need"
)

func TestMain(m *testing.M) { engines.Main(m) }

func check(t *testing.T, cfg Config, pacer string, rates ...uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cfg.Rates, cfg.Tries = rates, 5
	rows, err := Run(ctx, cfg, pacer)
	for _, r := range rows {
		t.Log(r)
		if err := r.Verdict(); err != nil {
			t.Errorf("after %d tries: %v", r.Tries, err)
		}
		if r.Limited {
			need.Skip(t, "the machine is too busy for the rate") // fails where all must run
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Every pacer keeps its rates, follows changes within an evaluation interval, and keeps
// the order of packets.
func TestPacersKeepTheirRates(t *testing.T) {
	need.Root(t)
	bin, err := engines.Binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, pacer := range Names {
		t.Run(pacer, func(t *testing.T) {
			check(t, Config{Bin: bin, Measure: time.Second}, pacer, 1e6, 20e6, 300e6)
		})
	}
}

// The 40 bytes of a stamp do not count: it is not the sender's, and with or without it
// a destination gets the same.
func TestStampsDoNotCount(t *testing.T) {
	need.Root(t)
	bin, err := engines.Binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, pacer := range Names {
		t.Run(pacer, func(t *testing.T) {
			check(t, Config{Bin: bin, Measure: time.Second, Stamped: true}, pacer, 20e6)
		})
	}
}

// The verdict on a row.
func TestVerdict(t *testing.T) {
	good := Row{Pacer: "htb", RateBps: 10e6, Frame: 1090, Measured: 10.2e6, Up: Change{9e6, 10e6}, Down: Change{2e6, 1e6}}
	for _, c := range []struct {
		name   string
		change func(*Row)
		ok     bool
	}{
		{"good", func(*Row) {}, true},
		{"too fast", func(r *Row) { r.Measured = 10.31e6 }, false},
		{"too slow", func(r *Row) { r.Measured = 9.69e6 }, false},
		{"late in the table", func(r *Row) { r.Down.Table = 300 * time.Millisecond }, false},
		{"late on the wire, by a packet at the old rate", func(r *Row) { r.Up.Wire = 18 * time.Millisecond }, true},
		{"later than that", func(r *Row) { r.Up.Wire = 19 * time.Millisecond }, false},
		{"out of order", func(r *Row) { r.Reordered = 1 }, false},
		{"not reached by the source", func(r *Row) { r.Limited, r.Measured = true, 1 }, true},
	} {
		r := good
		c.change(&r)
		if err := r.Verdict(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
