// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/chart"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

const (
	senders         = 4
	linkBps         = 100_000_000
	precreditBuffer = 64 << 10 // of the bottleneck, bytes for each queue
	last            = 8        // DSCP of what the switch serves last: CS1
	small           = 1 << 10  // bytes: within a bandwidth-delay product of 5 KB
	large           = 256 << 10
)

// candidates are measured in turn.
var candidates = []struct {
	name string
	o    nic.Options
}{
	{"without", nic.Options{}},
	{"pre-credit", nic.Options{PreCredit: true}},
	{"and a queue for large", nic.Options{PreCredit: true, LargeDSCP: last}},
}

// TestIncast: what small messages take while large ones go the same way, and an incast
// of large ones, with pre-credit and without, taking turns.
//
// What must hold on any machine: all complete, large messages among them, and some go on
// pre-credit. Where time is judged, large messages get half of what they get without.
// The rest is a table for the reader; SOFTROCE_REPORT names a folder for it and has it
// made of more rounds.
func TestIncast(t *testing.T) {
	topo.RequireRoot(t)
	runtime.GOMAXPROCS(max(8, runtime.GOMAXPROCS(0))) // all hosts are in this process
	rounds, length := 1, 1500*time.Millisecond
	report := os.Getenv("SOFTROCE_REPORT")
	if report != "" {
		rounds, length = 5, 4*time.Second
	}
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(senders + 1), StaticNeighbours: true})
	q, err := newTwoQueues(top, top.Host(1), linkBps, precreditBuffer, last)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	hosts := engines.On(t, top, "--rate", fmt.Sprint(linkBps))
	mixed := Load{Small: small, Large: large, SmallEvery: 2 * time.Millisecond, LargeEvery: 10 * time.Millisecond, Length: length}
	idle := Load{Small: small, SmallEvery: 3 * time.Millisecond, LargeEvery: -1, Length: 500 * time.Millisecond}
	busy := mixed
	busy.LargeEvery = 0
	type row struct{ idle, mixed, busy, burst []PrecreditResult }
	rows := make([]row, len(candidates))
	for i := range rounds {
		for k := range candidates {
			k = (k + i) % len(candidates) // the first one has another machine before it
			r, c := &rows[k], candidates[k]
			in, err := open(hosts, q, c.o, mixed)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			run := func(to *[]PrecreditResult, what string, l Load) {
				l.Seed = uint64(i)
				res, err := in.measure(l)
				if err != nil {
					t.Fatalf("%s, %s: %v\n%s", c.name, what, err, in.show())
				}
				*to = append(*to, res)
			}
			run(&r.idle, "idle", idle)
			for try := 1; try < 4 && c.o.PreCredit && r.idle[i].Paid == 0; try++ { // grants lapse while a machine stands still
				r.idle = r.idle[:i]
				run(&r.idle, "idle", idle)
			}
			run(&r.mixed, "mixed", mixed)
			run(&r.busy, "busy", busy)
			res, err := in.burst(20, 128<<10, 20*time.Millisecond)
			if err != nil {
				t.Fatalf("%s, burst: %v", c.name, err)
			}
			r.burst = append(r.burst, res)
			if err := in.close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	var b bytes.Buffer
	table := func(title string, pick func(*row) []PrecreditResult) {
		tab := chart.Table{Title: title, Header: []string{"", "soon", "p50", "p99", "Mbit/s", "large", "p50", "p99", "dropped", "sent again", "withheld", "small p50 over without", "p99", "Mbit/s", "large"}}
		base := pick(&rows[0])
		for k, c := range candidates {
			all := pick(&rows[k])
			ratio := func(f func(PrecreditResult) float64) string {
				var v []float64
				for i := range all {
					if d := f(base[i]); d > 0 {
						v = append(v, f(all[i])/d)
					}
				}
				if len(v) == 0 {
					return "-"
				}
				return fmt.Sprintf("%.2f", precreditMedian(v))
			}
			med := func(f func(PrecreditResult) float64) float64 {
				var v []float64
				for _, r := range all {
					v = append(v, f(r))
				}
				return precreditMedian(v)
			}
			// Twice what such a message takes alone in the network.
			soon := 2 * rows[0].idle[0].Small.Quantile(0.5)
			dur := func(f func(PrecreditResult) time.Duration) string {
				if f(all[0]) == 0 {
					return "-"
				}
				return time.Duration(med(func(r PrecreditResult) float64 { return float64(f(r)) })).Round(time.Microsecond).String()
			}
			soonText := "-"
			if len(all[0].Small) > 0 {
				soonText = fmt.Sprintf("%.1f %%", 100*med(func(r PrecreditResult) float64 { return r.Small.Within(soon) }))
			}
			tab.Rows = append(tab.Rows, []string{
				c.name, soonText,
				dur(func(r PrecreditResult) time.Duration { return r.Small.Quantile(0.5) }), dur(func(r PrecreditResult) time.Duration { return r.Small.Quantile(0.99) }),
				fmt.Sprintf("%.0f", med(total)), fmt.Sprintf("%.0f", med(goodput)), dur(func(r PrecreditResult) time.Duration { return r.Large.Quantile(0.5) }), dur(func(r PrecreditResult) time.Duration { return r.Large.Quantile(0.99) }),
				fmt.Sprintf("%.0f", med(func(r PrecreditResult) float64 { return float64(r.Drops) })), fmt.Sprintf("%.0f", med(func(r PrecreditResult) float64 { return float64(r.Again) })),
				fmt.Sprintf("%.0f", med(func(r PrecreditResult) float64 { return float64(r.Withheld) })),
				ratio(func(r PrecreditResult) float64 { return float64(r.Small.Quantile(0.5)) }), ratio(func(r PrecreditResult) float64 { return float64(r.Small.Quantile(0.99)) }), ratio(total), ratio(goodput),
			})
		}
		if err := tab.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b)
	}
	table("nothing else outstanding", func(r *row) []PrecreditResult { return r.idle })
	table("next to large messages with pauses", func(r *row) []PrecreditResult { return r.mixed })
	table("next to large messages without pauses", func(r *row) []PrecreditResult { return r.busy })
	table("128 KB from all at once, nothing else", func(r *row) []PrecreditResult { return r.burst })
	t.Logf("%d rounds\n%s", rounds, &b)
	if report != "" {
		if err := os.WriteFile(filepath.Join(report, "precredit.txt"), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for k, c := range candidates {
		for i, r := range rows[k].busy {
			if r.LargeBytes == 0 {
				t.Errorf("%s: no large message next to small ones", c.name)
			}
			if least := 0.5 * goodput(rows[0].busy[i]); goodput(r) < least {
				require.Missed(t, "%s: large messages got %.0f Mbit/s, without pre-credit %.0f", c.name, goodput(r), 2*least)
			}
		}
		if c.o.PreCredit && rows[k].idle[0].Paid == 0 {
			t.Errorf("%s: nothing was sent on pre-credit", c.name)
		}
	}
}

func goodput(r PrecreditResult) float64 { return float64(r.LargeBytes) * 8 / r.Elapsed.Seconds() / 1e6 }

func total(r PrecreditResult) float64 {
	return goodput(r) + float64(len(r.Small)*small)*8/r.Elapsed.Seconds()/1e6
}

func precreditMedian(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
