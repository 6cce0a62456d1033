// SPDX-License-Identifier: Apache-2.0

package pacers

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/testenv/engines"
	"github.com/softroce/softroce-xdp/testenv/need"
)

func TestMain(m *testing.M) {
	code := m.Run()
	engines.RemoveBinary()
	os.Exit(code)
}

// tries of a row: on a machine that others use as well a packet may leave late. What is
// too fast, or out of order, is wrong at once.
const tries = 4

func check(t *testing.T, cfg Config, pacer string, rate uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cfg.Rates = []uint64{rate}
	for i := 1; ; i++ {
		rows, err := Run(ctx, cfg, pacer)
		if err != nil {
			t.Fatal(err)
		}
		r := rows[0]
		t.Log(r)
		switch err := r.Verdict(); {
		case err == nil && !r.Limited:
			return
		case err == nil:
			need.Skip(t, "the machine is too busy for the rate") // fails where all must run
		case r.Reordered > 0 || r.Error() > MaxError || i == tries:
			t.Fatal(err)
		}
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
		for _, rate := range []uint64{1e6, 20e6, 300e6} {
			t.Run(pacer+" at "+bits(float64(rate)), func(t *testing.T) {
				check(t, Config{Bin: bin, Measure: time.Second}, pacer, rate)
			})
		}
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
