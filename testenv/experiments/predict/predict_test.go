// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/mempool/predict"
)

// writeGCD makes a folder like that of GCD_VMs.tar.gz: jobs times days of random walks.
func writeGCD(t *testing.T, jobs, days, periods int) string {
	t.Helper()
	dir := t.TempDir()
	for job := range jobs {
		for day := range days {
			r := rand.New(rand.NewPCG(uint64(job), uint64(day)))
			var text strings.Builder
			memory := 20.0
			for range periods {
				memory = max(5, min(memory+r.NormFloat64()/4, 90))
				fmt.Fprintf(&text, "%v %v\n", 30+10*r.Float64(), memory)
			}
			name := filepath.Join(dir, fmt.Sprintf("vm_%d_%d", 1000+job, day+1))
			if err := os.WriteFile(name, []byte(text.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// The whole comparison runs on a small folder and names every method.
func TestRunGCD(t *testing.T) {
	var out strings.Builder
	dir := writeGCD(t, 20, 2, 60)
	if err := run([]string{"-gcd", dir, "-horizon", "3", "-seeds", "1", "-epochs", "1", "-mixtures", "5", "-networks", "2", "-starts"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"40 machines, 3 periods ahead", "| last value |", "| EWMA |", "| Holt-Winters |", "| window maximum |", "| linear |",
		"| network alone, trained |", "| mean of 2 networks, trained |", "| node, trained start |", "| node, start of the package |", "| node, random start |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") {
		t.Errorf("a figure is not a number:\n%s", out.String())
	}
}

func TestRunRefuses(t *testing.T) {
	empty := t.TempDir()
	bad := writeGCD(t, 1, 1, 10)
	if err := os.WriteFile(filepath.Join(bad, "vm_1_2"), []byte("1 2\nx y\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no folder":          {nil, "use -gcd or -datacenters"},
		"empty folder":       {[]string{"-gcd", empty}, "unpack GCD_VMs.tar.gz"},
		"a line of letters":  {[]string{"-gcd", bad}, `"x y"`},
		"no tables":          {[]string{"-datacenters", empty}, "instance_usage_grouped_300_seconds_month.csv"},
		"an unknown flag":    {[]string{"-nothing"}, "-nothing"},
		"a horizon too long": {[]string{"-gcd", writeGCD(t, 4, 1, 60), "-horizon", "99"}, "horizon 99"},
	} {
		if err := run(c.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", name, err, c.want)
		}
	}
}

// A job is in one part of a split, and all traces are in some part.
func TestSplitsDoNotOverlap(t *testing.T) {
	traces, err := readGCD(writeGCD(t, 60, 3, 5))
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(5) {
		part := map[string]int{}
		count := 0
		for i, set := range splitByJob(traces, seed) {
			count += len(set)
			if len(set) == 0 {
				t.Errorf("seed %d: part %d is empty", seed, i)
			}
			for _, one := range set {
				if p, ok := part[one.job]; ok && p != i {
					t.Fatalf("seed %d: job %s is in parts %d and %d", seed, one.job, p, i)
				}
				part[one.job] = i
			}
		}
		if count != len(traces) {
			t.Errorf("seed %d: %d of %d traces", seed, count, len(traces))
		}
	}
}

// The fit of a margin meets the over-allocation, and the score is what it says: checked by hand.
func TestCurve(t *testing.T) {
	var s sums
	s.add(10, []float64{12, 10, 5})
	s.add(0, []float64{3})
	if got, want := s.score(), (score{5.0 / 30, 5.0 / 30}); math.Abs(got.under-want.under)+math.Abs(got.over-want.over) > 1e-12 {
		t.Errorf("score %v, want %v", got, want)
	}
	traces, err := readGCD(writeGCD(t, 5, 1, 100))
	if err != nil {
		t.Fatal(err)
	}
	for unit := range units {
		c := collect(traces, 3, func(int) predict.Simple { return predict.NewEWMA(0.5) }).curve(unit)
		if got := c.at(c.fit(0.02)).over; math.Abs(got-0.02) > 0.0005 {
			t.Errorf("margin by %s: over-allocation %v, want 0.02", unitNames[unit], got)
		}
		if a, b := c.equal(0.01), c.equal(0.03); a <= b {
			t.Errorf("margin by %s: under-allocation %v at 1 %%, %v at 3 %%", unitNames[unit], a, b)
		}
	}
}

// A decision never sees the needs that it is compared with: changing the future changes no prediction.
func TestNoLookAhead(t *testing.T) {
	traces, err := readGCD(writeGCD(t, 1, 1, 80))
	if err != nil {
		t.Fatal(err)
	}
	const horizon, changed = 3, 60
	predictions := func(tr trace) []float64 {
		return collect([]trace{tr}, horizon, predict.NewLinear).centre
	}
	before := predictions(traces[0])
	for i := changed; i < len(traces[0].need); i++ {
		traces[0].need[i] *= 3
	}
	after := predictions(traces[0])
	for i := range before {
		if at := i + warmup; (at < changed) != (before[i] == after[i]) {
			t.Errorf("prediction at period %d: %v, and %v with other needs from period %d", at, before[i], after[i], changed)
		}
	}
}
