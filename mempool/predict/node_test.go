// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func newNode(t *testing.T, change func(*Config)) *Node {
	t.Helper()
	cfg := DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	n, err := NewNode(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// observe feeds demands, half of which is used.
func observe(t *testing.T, n *Node, demands ...uint64) {
	t.Helper()
	for _, d := range demands {
		if err := n.Observe(Sample{Demand: d, Touched: d / 2, Leased: d}); err != nil {
			t.Fatal(err)
		}
	}
}

// wave is a demand with a period, noise and sudden rises.
func wave(seed uint64, periods int) []uint64 {
	r := rand.New(rand.NewPCG(seed, 7))
	all := make([]uint64, periods)
	base := 10_000.0
	for i := range all {
		if r.IntN(50) == 0 {
			base *= 0.7 + r.Float64()
		}
		all[i] = uint64(max(0, base*(1+0.1*math.Sin(float64(i)/6))+r.NormFloat64()*100))
	}
	return all
}

func TestConfigRefused(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"horizon 0":        func(c *Config) { c.Horizon = 0 },
		"negative horizon": func(c *Config) { c.Horizon = -1 },
		"huge horizon":     func(c *Config) { c.Horizon = MaxHorizon + 1 },
		"tau 0":            func(c *Config) { c.Tau = 0 },
		"tau 1":            func(c *Config) { c.Tau = 1 },
		"tau NaN":          func(c *Config) { c.Tau = math.NaN() },
		"negative rate":    func(c *Config) { c.Rate = -1 },
		"infinite rate":    func(c *Config) { c.Rate = math.Inf(1) },
		"rate NaN":         func(c *Config) { c.Rate = math.NaN() },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		if _, err := NewNode(cfg, nil); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: error %v, want ErrConfig", name, err)
		}
	}
	if _, err := NewNode(DefaultConfig(), NewNetwork(1, Inputs-1, 4)); !errors.Is(err, ErrConfig) {
		t.Errorf("a start network with other inputs: error %v, want ErrConfig", err)
	}
}

// A sample that cannot be true is refused and changes nothing.
func TestSampleRefused(t *testing.T) {
	n := newNode(t, nil)
	observe(t, n, 100, 200, 300)
	other := newNode(t, nil)
	observe(t, other, 100, 200, 300)
	for _, s := range []Sample{{Demand: MaxPages + 1}, {Demand: math.MaxUint64}, {Demand: 1, Touched: 2, Leased: 1}, {Touched: 1}} {
		if err := n.Observe(s); !errors.Is(err, ErrSample) {
			t.Errorf("%+v: error %v, want ErrSample", s, err)
		}
	}
	if !reflect.DeepEqual(n, other) {
		t.Error("a refused sample changed the node")
	}
}

// Whatever the demand does between 0 and MaxPages, the prediction and all losses stay finite.
func TestExtremeDemands(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	for _, demands := range [][]uint64{{0}, {MaxPages}, {0, MaxPages}, {1, 0, 0, 0}, {5, 5, 5, MaxPages, 5}} {
		n := newNode(t, func(c *Config) { c.Rate = maxRate })
		for range 400 {
			observe(t, n, demands[r.IntN(len(demands))])
			if n.Need() > MaxPages {
				t.Fatalf("demands %v: need %d", demands, n.Need())
			}
		}
		for _, p := range n.Report().Predictors {
			if v := p.LossPages + p.PredictedPages + p.MarginSpreads; math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("demands %v: %+v", demands, p)
			}
		}
		for _, v := range n.Report().Weights {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Fatalf("demands %v: a weight is %v", demands, v)
			}
		}
	}
}

// A node without demand needs nothing, and a constant demand is met to a thousandth, with little more.
func TestConstantDemand(t *testing.T) {
	for _, demand := range []uint64{0, 1, 1000, 1 << 30} {
		n := newNode(t, nil)
		if n.Need() != 0 {
			t.Errorf("need %d without a sample", n.Need())
		}
		for range 300 {
			observe(t, n, demand)
		}
		if got := float64(n.Need()); got < 0.999*float64(demand) || got > 1.05*float64(demand)+1 {
			t.Errorf("constant demand %d: need %.0f", demand, got)
		}
	}
}

// More demand leads to more space, and less demand to less.
func TestNeedFollowsDemand(t *testing.T) {
	n := newNode(t, nil)
	high := make([]uint64, 60)
	low := make([]uint64, 60)
	for i := range high {
		high[i], low[i] = 50_000+uint64(i%3), 2_000+uint64(i%3)
	}
	observe(t, n, low...)
	before := n.Need()
	observe(t, n, high...)
	during := n.Need()
	observe(t, n, low...)
	after := n.Need()
	if before > 5_000 || during < 50_000 || after > 5_000 {
		t.Errorf("needs %d, %d, %d for demands of 2000, 50 000 and 2000 pages", before, during, after)
	}
}

// The guard leaves a network that is wrong, for the best simple predictor.
func TestGuardLeavesWrongNetwork(t *testing.T) {
	bad := NewNetwork(1, Inputs, 8)
	bad.weights[len(bad.weights)-9] = 8 // the bias of the output: 1490 spreads too much
	cfg := DefaultConfig()
	cfg.Rate = 0 // it never learns
	n, err := NewNode(cfg, bad)
	if err != nil {
		t.Fatal(err)
	}
	observe(t, n, wave(1, 200)...)
	r := n.Report()
	if r.Predictor == "network" {
		t.Fatalf("the network decides: %+v", r.Predictors)
	}
	best := slices.MinFunc(r.Predictors, func(a, b PredictorReport) int {
		if a.LossPages < b.LossPages {
			return -1
		}
		return 1
	})
	chosen := r.Predictors[slices.IndexFunc(r.Predictors, func(p PredictorReport) bool { return p.Name == r.Predictor })]
	if chosen.LossPages > best.LossPages/guardHold {
		t.Errorf("%s with loss %v decides, %s has %v", chosen.Name, chosen.LossPages, best.Name, best.LossPages)
	}
	if r.NetworkPeriods > r.Periods/10 {
		t.Errorf("the network decided %d of %d periods", r.NetworkPeriods, r.Periods)
	}
}

// The guard takes each simple predictor on the demand that suits it.
func TestGuardPicksLeastLoss(t *testing.T) {
	for want := range experts {
		var g guard
		g.reset()
		d := decision{}
		for i := range d.Pages {
			d.Pages[i] = 200
		}
		d.Pages[want] = 101
		for range 50 {
			g.settle(&d, []float64{100}, 0.9)
			g.choose()
		}
		if g.Choice != want {
			t.Errorf("predictor %d has the least loss, and %d is chosen", want, g.Choice)
		}
		// The network comes back once its loss is no worse.
		d.Pages[network], d.Pages[want] = 101, 300
		for range 400 {
			g.settle(&d, []float64{100}, 0.9)
			g.choose()
		}
		if g.Choice != network {
			t.Errorf("the network has the least loss, and %d is chosen", g.Choice)
		}
	}
}

// Margins of simple predictors move until they suffice in tau of the periods.
func TestMarginReachesQuantile(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	n := newNode(t, func(c *Config) { c.Horizon = 1; c.Tau = 0.9 })
	short, periods := 0, 0
	for i := range 6000 {
		need := 10_000 + r.NormFloat64()*500
		if i > 1000 {
			periods++
			if need > n.open[0].Pages[1] { // ewma
				short++
			}
		}
		observe(t, n, uint64(need))
	}
	if part := float64(short) / float64(periods); part < 0.08 || part > 0.12 {
		t.Errorf("the need exceeds the prediction in %.3f of the periods, want 0.1", part)
	}
}

func TestNodeDeterministic(t *testing.T) {
	run := func() *Node {
		n := newNode(t, nil)
		observe(t, n, wave(2, 300)...)
		return n
	}
	if first, second := run(), run(); !reflect.DeepEqual(first, second) {
		t.Error("equal samples gave different states")
	}
}

// A period allocates no memory.
func TestObserveAllocatesNothing(t *testing.T) {
	n := newNode(t, nil)
	observe(t, n, wave(5, 100)...)
	i := uint64(0)
	if got := testing.AllocsPerRun(200, func() {
		i++
		_ = n.Observe(Sample{Demand: 10_000 + i*i%977, Touched: 1, Leased: 2})
		_ = n.Need()
	}); got != 0 {
		t.Errorf("%v allocations per period", got)
	}
}

func TestReportIsJSON(t *testing.T) {
	n := newNode(t, nil)
	observe(t, n, wave(6, 50)...)
	text, err := json.Marshal(n.Report())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"predictor":"`, `"need_pages":`, `"name":"network"`, `"name":"last"`, `"name":"ewma"`, `"name":"holt-winters"`, `"name":"window-max"`, `"name":"linear"`, `"weights":[`, `"layers":[`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the report lacks %s: %.300s", want, text)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	n, err := NewNode(DefaultConfig(), nil)
	if err != nil {
		b.Fatal(err)
	}
	demands := wave(1, 1024)
	b.ReportAllocs()
	for i := range b.N {
		if err := n.Observe(Sample{Demand: demands[i%1024]}); err != nil {
			b.Fatal(err)
		}
	}
}
