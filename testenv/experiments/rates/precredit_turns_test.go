// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/chart"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// TestTurns: what a message of 32 KB takes while eight queue pairs of the same host have
// long ones for the same destination, with turns that are all alike (without pre-credit)
// and with turns that fade (S5.6). The message is too long for pre-credit; of READs
// nothing is on pre-credit at all.
func TestTurns(t *testing.T) {
	topo.RequireRoot(t)
	rounds, length := 1, time.Second
	report := os.Getenv("SOFTROCE_REPORT")
	if report != "" {
		rounds, length = 5, 3*time.Second
	}
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true})
	hosts := engines.On(t, top, "--rate", fmt.Sprint(linkBps), "--policy", "mode=fixed")
	tab := chart.Table{
		Title:  fmt.Sprintf("32 KB next to eight streams at %d Mbit/s", linkBps/1_000_000),
		Header: []string{"", "turns", "p50", "p99", "streams Mbit/s", "p50 over alike", "p99", "streams"},
	}
	for _, what := range []struct {
		name string
		op   verbs.Op
	}{{"WRITE", verbs.OpWrite}, {"READ", verbs.OpRead}} {
		var all [2][]PrecreditResult
		for i := range rounds {
			for k := range 2 {
				k = (k + i) % 2
				r, err := turns(hosts, candidates[k].o.PreCredit, what.op, length)
				if err != nil {
					t.Fatal(err)
				}
				all[k] = append(all[k], r)
			}
		}
		for k, name := range []string{"alike", "fading"} {
			mid := func(f func(PrecreditResult) float64) float64 {
				var v []float64
				for _, r := range all[k] {
					v = append(v, f(r))
				}
				return precreditMedian(v)
			}
			over := func(f func(PrecreditResult) float64) string {
				var v []float64
				for i := range all[k] {
					v = append(v, f(all[k][i])/f(all[0][i]))
				}
				return fmt.Sprintf("%.2f", precreditMedian(v))
			}
			p50 := func(r PrecreditResult) float64 { return float64(r.Small.Quantile(.5)) }
			p99 := func(r PrecreditResult) float64 { return float64(r.Small.Quantile(.99)) }
			tab.Rows = append(tab.Rows, []string{what.name, name,
				time.Duration(mid(p50)).Round(time.Microsecond).String(), time.Duration(mid(p99)).Round(time.Microsecond).String(),
				fmt.Sprintf("%.0f", mid(goodput)), over(p50), over(p99), over(goodput)})
		}
		for i, r := range all[1] {
			if r.LargeBytes == 0 || len(r.Small) == 0 {
				t.Errorf("%s: %d bytes of streams, %d messages next to them", what.name, r.LargeBytes, len(r.Small))
			}
			if goodput(r) < 0.5*goodput(all[0][i]) {
				require.Missed(t, "%s: the streams got %.0f Mbit/s, with turns alike %.0f", what.name, goodput(r), goodput(all[0][i]))
			}
		}
	}
	var b bytes.Buffer
	if err := tab.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rounds\n%s", rounds, &b)
	if report != "" {
		if err := os.WriteFile(filepath.Join(report, "turns.txt"), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// turns is one run of it. Data goes from host 1 to host 0; the streams come first.
func turns(hosts []*engines.Host, precredit bool, op verbs.Op, length time.Duration) (r PrecreditResult, err error) {
	const streams, long, short = 8, 1 << 20, 32 << 10
	o := candidates[0].o
	if precredit {
		o = candidates[1].o
	}
	in := &incast{hosts: hosts}
	defer func() { err = errors.Join(err, in.close()) }()
	for _, h := range hosts {
		if _, err := h.Open(o); err != nil {
			return r, err
		}
	}
	var all []*stream
	for range streams + 1 {
		from, to := hosts[1], hosts[0]
		if op == verbs.OpRead {
			from, to = to, from
		}
		s, err := newStream(from, to, long)
		if err != nil {
			return r, err
		}
		s.op = op
		all = append(all, s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), length+2*time.Minute)
	defer cancel()
	for _, s := range all { // HELLO has to tell who understands stamps, and rates are learnt
		for range 3 {
			if _, err := s.send(ctx, short); err != nil {
				return r, err
			}
		}
	}
	time.Sleep(500 * time.Millisecond)
	var wg sync.WaitGroup
	var done atomic.Bool
	errs := make([]error, len(all))
	for i, s := range all[:streams] {
		wg.Go(func() {
			for !done.Load() && errs[i] == nil {
				_, errs[i] = s.send(ctx, long)
			}
		})
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	time.Sleep(length / 5)
	sent := func() uint64 { return counter(hosts[1].Dev, "tx_data_bytes") }
	begin, before := time.Now(), sent()
	streamed := func() uint64 { return sent() - before - uint64(len(r.Small)*short) }
	// In the time of a machine that stands still, there may be no message, and no stream.
	for (time.Since(begin) < length || len(r.Small) == 0 || streamed() == 0) && err == nil {
		time.Sleep(time.Duration(rnd.ExpFloat64() * float64(5*time.Millisecond)))
		var d time.Duration
		if d, err = all[streams].send(ctx, short); err == nil {
			r.Small = append(r.Small, d)
		}
	}
	r.Elapsed, r.LargeBytes = time.Since(begin), streamed()
	done.Store(true)
	wg.Wait()
	slices.Sort(r.Small)
	return r, errors.Join(append(errs, err)...)
}
