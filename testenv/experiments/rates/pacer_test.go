// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"context"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// prefer has the test go before other processes where time is judged.
func prefer(t *testing.T) {
	t.Helper()
	if !require.Judged {
		return
	}
	end, err := Prefer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

func pacerCheck(t *testing.T, cfg PacerConfig, pacer string, rates ...uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	prefer(t)
	cfg.Rates, cfg.Tries = rates, require.Tries(5)
	rows, err := RunPacers(ctx, cfg, pacer)
	for _, r := range rows {
		t.Log(r)
		if err := r.Broken(); err != nil {
			t.Error(err)
		} else if err := r.Verdict(); err != nil {
			require.Missed(t, "after %d tries: %v", r.Tries, err)
		}
		if r.Limited {
			require.Missed(t, "the machine is too busy for the rate")
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// No pacer exceeds its rates, and each keeps the order of packets. Where time is judged, each
// also reaches its rates and follows changes within an evaluation interval.
func TestPacersKeepTheirRates(t *testing.T) {
	require.Root(t)
	bin, err := engines.Binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, pacer := range Names {
		t.Run(pacer, func(t *testing.T) {
			pacerCheck(t, PacerConfig{Bin: bin, Measure: time.Second}, pacer, 1e6, 20e6, 300e6)
		})
	}
}

// The 40 bytes of a stamp do not count: it is not the sender's, and with or without it
// a destination gets the same.
func TestStampsDoNotCount(t *testing.T) {
	require.Root(t)
	bin, err := engines.Binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, pacer := range Names {
		t.Run(pacer, func(t *testing.T) {
			pacerCheck(t, PacerConfig{Bin: bin, Measure: time.Second, Stamped: true}, pacer, 20e6)
		})
	}
}

// The verdict on a row.
func TestVerdict(t *testing.T) {
	good := PacerRow{Pacer: "htb", RateBps: 10e6, Frame: 1090, Measured: 10.2e6, Up: Change{9e6, 10e6}, Down: Change{2e6, 1e6}}
	for _, c := range []struct {
		name       string
		change     func(*PacerRow)
		ok, broken bool
	}{
		{"good", func(*PacerRow) {}, true, false},
		{"too fast", func(r *PacerRow) { r.Measured = 10.31e6 }, false, true},
		{"too slow", func(r *PacerRow) { r.Measured = 9.69e6 }, false, false},
		{"late in the table", func(r *PacerRow) { r.Down.Table = 300 * time.Millisecond }, false, false},
		{"late on the wire, by a packet at the old rate", func(r *PacerRow) { r.Up.Wire = 18 * time.Millisecond }, true, false},
		{"later than that", func(r *PacerRow) { r.Up.Wire = 19 * time.Millisecond }, false, false},
		{"out of order", func(r *PacerRow) { r.Reordered = 1 }, false, true},
		{"not reached by the source", func(r *PacerRow) { r.Limited, r.Measured = true, 1 }, true, false},
		{"not reached, and out of order", func(r *PacerRow) { r.Limited, r.Reordered = true, 1 }, false, true},
	} {
		r := good
		c.change(&r)
		if err := r.Verdict(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := r.Broken(); (err != nil) != c.broken {
			t.Errorf("%s: broken: %v", c.name, err)
		}
	}
}
