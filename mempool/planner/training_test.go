// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/predict"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

const page = 4096

// steps is a demand that the package's weights do not know: it jumps to 3 times its value for one period in 8.
func steps(p *Planner, id lease.NodeID, seed uint64, periods int) {
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range periods {
		demand := uint64(10_000 + r.IntN(50))
		if i%8 == 7 {
			demand *= 3
		}
		p.Observe(id, lease.Usage{Demand: demand * page, Used: demand * page / 2, Leased: demand * page})
	}
}

func open(t *testing.T, c Config) *Planner {
	t.Helper()
	c.Report = func(err error) { t.Error(err) }
	p, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run runs Run until its first look, and waits until it has stored what there is.
func run(p *Planner) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p.Run(ctx)
}

// The samples are limited: the newest of each node, and those of nodes that are gone go first.
func TestSamplesAreBounded(t *testing.T) {
	s := newSamples()
	for i := range uint64(3 * maxPerNode) {
		s.add(1, predict.Sample{Demand: i})
	}
	if list := s.nodes[1].list; len(list) != maxPerNode || list[maxPerNode-1].Demand != 3*maxPerNode-1 || list[0].Demand != 2*maxPerNode {
		t.Errorf("%d samples, from %d", len(list), list[0].Demand)
	}
	s.add(2, predict.Sample{})
	s.leave(2)
	if len(s.gone) != 0 || s.kept != maxPerNode {
		t.Errorf("a node with one sample: %d gone, %d kept", len(s.gone), s.kept)
	}
	for id := range lease.NodeID(2 * maxGone) {
		for range maxPerNode {
			s.add(10+id, predict.Sample{Demand: uint64(id)})
		}
		s.leave(10 + id)
	}
	sum := len(s.nodes[1].list)
	for _, g := range s.gone {
		sum += len(g)
	}
	if s.kept != sum || sum > maxKept || len(s.gone) > maxGone {
		t.Errorf("%d samples of %d nodes that are gone, counted %d", sum, len(s.gone), s.kept)
	}
	if last := s.gone[len(s.gone)-1]; last[0].Demand != 2*maxGone-1 {
		t.Errorf("the newest that is gone is %d", last[0].Demand)
	}
	for id := range lease.NodeID(2 * maxGone) {
		for range minGoneKept {
			s.add(5000+id, predict.Sample{})
		}
		s.leave(5000 + id)
	}
	if len(s.gone) != maxGone {
		t.Errorf("%d nodes that are gone, want %d", len(s.gone), maxGone)
	}
	for id := range lease.NodeID(5000) {
		for range 2 * minPerNode {
			s.add(1000+id, predict.Sample{})
		}
	}
	if list := s.nodes[1000+4999].list; len(list) != minPerNode {
		t.Errorf("%d samples of one of 5000 nodes", len(list))
	}
}

// After a restart, nodes that the table resumes have their samples and predictions, and the samples of the others
// are those of nodes that are gone.
func TestRestart(t *testing.T) {
	c := Config{File: filepath.Join(t.TempDir(), "samples")}
	p := open(t, c)
	steps(p, 1, 1, 200)
	steps(p, 2, 2, 100)
	steps(p, 3, 3, 10)
	p.Forget(3)
	run(p)
	before := p.Prediction(1)

	p = open(t, c)
	p.Resume(1, lease.Usage{Demand: 7 * page})
	run(p)
	if after := p.Prediction(1); after.Need != before.Need || after.By != before.By || after.Periods != 200 {
		t.Errorf("%+v before, %+v after", before, after)
	}
	if len(p.samples.nodes) != 1 || len(p.samples.nodes[1].list) != 200 || len(p.samples.gone) != 1 || len(p.samples.gone[0]) != 100 {
		t.Errorf("%d nodes, %d gone", len(p.samples.nodes), len(p.samples.gone))
	}
	// A new node whose number was that of another one, because the state of the leases was removed.
	p = open(t, c)
	p.Observe(1, lease.Usage{Demand: page})
	if x := p.Prediction(1); x.Periods != 1 || x.Need != page {
		t.Errorf("%+v", x)
	}
	run(p)
	if len(p.samples.gone) != 2 {
		t.Errorf("%d gone", len(p.samples.gone))
	}
}

func TestBadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "samples")
	for text, want := range map[string]string{"{": "remove it", `{"version":9}`: "version 9, and this program has version 1: remove it"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Config{File: path}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", text, err)
		}
	}
	// Weights of a predictor with other inputs are left out, and so are samples that cannot be true.
	text, err := json.Marshal(state{
		Version: 1, Origin: Origin{Trainings: 3}, Weights: ptr(predict.NewNetwork(1, 7, 4).State()),
		Nodes: []savedNode{{1, savedSamples{{1, 9, 2}, {5, 1, 2}}}},
		Gone:  []savedSamples{append(slices.Repeat(savedSamples{{5, 1, 2}}, minGoneKept), [3]uint64{predict.MaxPages + 1, 0, 0})},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	p := open(t, Config{File: path})
	p.Resume(1, lease.Usage{})
	if x := p.Prediction(1); x.Weights != "synthetic" || x.Periods != 1 || len(p.samples.nodes[1].list) != 1 {
		t.Errorf("%+v of %+v", x, p.samples.nodes[1].list)
	}
	run(p)
	if len(p.samples.gone) != 1 || len(p.samples.gone[0]) != minGoneKept {
		t.Errorf("gone: %+v", p.samples.gone)
	}
}

func ptr[T any](v T) *T { return &v }

// A file that cannot be written is reported once, and the planner goes on.
func TestFileCannotBeWritten(t *testing.T) {
	told := 0
	p, err := Open(Config{File: filepath.Join(t.TempDir(), "absent", "samples"), Report: func(error) { told++ }})
	if err != nil {
		t.Fatal(err)
	}
	steps(p, 1, 1, 3)
	run(p)
	run(p)
	if told != 1 || p.Prediction(1).Periods != 3 {
		t.Errorf("told %d times", told)
	}
}

// The process trains with the samples; what it returns is better on samples that it did not train with, and
// nodes continue with it. It is the same in every run.
func TestTrainsInProcess(t *testing.T) {
	var tasks []Task
	c := Config{File: filepath.Join(t.TempDir(), "samples"), Train: func(ctx context.Context, task Task) (Result, error) {
		tasks = append(tasks, task)
		return Process(ctx, task)
	}}
	p := open(t, c)
	for id := range lease.NodeID(3) {
		steps(p, id+1, uint64(id), firstTraining/3-1)
	}
	if err := p.train(t.Context()); err != nil || len(tasks) != 0 {
		t.Fatalf("%d trainings with too few samples: %v", len(tasks), err)
	}
	steps(p, 1, 9, 3)
	if err := p.train(t.Context()); err != nil || len(tasks) != 1 {
		t.Fatalf("%d trainings: %v", len(tasks), err)
	}
	if p.origin.Trainings != 1 || p.origin.Samples != firstTraining || !(p.origin.Loss < p.origin.Before) || p.origin.Loss == 0 {
		t.Errorf("%+v", p.origin)
	}
	if x := p.Prediction(1); x.Weights != "pool, training 1" || x.Periods != firstTraining/3+2 {
		t.Errorf("%+v", x)
	}
	if err := p.train(t.Context()); err != nil || len(tasks) != 1 {
		t.Errorf("%d trainings without new samples: %v", len(tasks), err)
	}
	again, err := Teach(tasks[0])
	if err != nil || !slices.Equal(again.Weights.Weights, p.start.Weights()) {
		t.Errorf("equal tasks gave different weights: %v", err)
	}
	// New nodes, and those after a restart, begin with these weights.
	run(p)
	p = open(t, c)
	p.Observe(7, lease.Usage{Demand: page})
	if x := p.Prediction(7); x.Weights != "pool, training 1" || !slices.Equal(p.start.Weights(), again.Weights.Weights) {
		t.Errorf("%+v", x)
	}
}

// A program that Process has started, and that does not call Main, starts no further one.
func TestProcessWithoutMain(t *testing.T) {
	t.Setenv(processEnv, "1")
	if _, err := Process(t.Context(), Task{Config: predict.DefaultConfig()}); err == nil || !strings.Contains(err.Error(), "Main") {
		t.Errorf("%v", err)
	}
}

// Samples count as new until a training has had them, also over a restart.
func TestFreshAfterRestart(t *testing.T) {
	trainings := 0
	c := Config{File: filepath.Join(t.TempDir(), "samples"), Train: func(context.Context, Task) (Result, error) {
		trainings++
		return Result{Loss: 1}, nil
	}}
	restart := func(p *Planner) *Planner {
		run(p)
		p = open(t, c)
		p.Resume(1, lease.Usage{})
		return p
	}
	p := open(t, c)
	for _, step := range []struct{ samples, trainings int }{{firstTraining - 1, 0}, {1, 1}, {firstTraining - 1, 1}, {0, 1}, {1, 2}, {0, 2}} {
		steps(p, 1, 1, step.samples)
		p = restart(p)
		if err := p.train(t.Context()); err != nil || trainings != step.trainings {
			t.Fatalf("%d trainings after %d samples, want %d (%v)", trainings, step.samples, step.trainings, err)
		}
	}
}

// Weights that are no better are not taken.
func TestWorseWeights(t *testing.T) {
	bad := predict.NewNetwork(1, predict.Inputs, 4).State()
	p := open(t, Config{Train: func(context.Context, Task) (Result, error) { return Result{bad, 0.2, 0.2}, nil }})
	steps(p, 1, 1, firstTraining)
	if err := p.train(t.Context()); err != nil {
		t.Fatal(err)
	}
	if x := p.Prediction(1); x.Weights != "synthetic" || p.start != nil {
		t.Errorf("%+v", x)
	}
}

// Periods go on while a network is trained, and none of their samples is lost when the nodes change to it.
func TestPeriodsDuringTraining(t *testing.T) {
	started, finish := make(chan bool, 1), make(chan bool)
	better := predict.StartNetwork().State()
	p := open(t, Config{Every: time.Millisecond, Train: func(context.Context, Task) (Result, error) {
		select {
		case started <- true:
			<-finish
		default: // a later training
		}
		return Result{better, 0.1, 0.2}, nil
	}})
	steps(p, 1, 1, firstTraining)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan bool)
	go func() { p.Run(ctx); close(done) }()
	<-started
	started <- true // the later ones do not wait
	for range 5 {
		steps(p, 1, 1, 100)
		p.Plan(10, page, []lease.Need{{Node: 1}})
		p.Forget(2)
	}
	close(finish)
	for p.Prediction(1).Weights == "synthetic" {
		steps(p, 1, 1, 1)
	}
	cancel()
	<-done
	x, total := p.Prediction(1), p.samples.nodes[1].total
	if x.Periods != total {
		t.Errorf("%+v after %d samples", x, total)
	}
	// The node has learnt what one has that was given the newest samples at once, up to the moment of the change.
	if n := p.nodes[1]; n.prediction.Need() == 0 {
		t.Error("the node has no prediction")
	}
}

// A training that fails says why, and the server that ends does not wait for one.
func TestTrainingFails(t *testing.T) {
	p := open(t, Config{Train: Process})
	steps(p, 1, 1, firstTraining)
	p.config.Horizon = 99
	if err := p.train(t.Context()); err == nil || !strings.Contains(err.Error(), "horizon 99") {
		t.Errorf("%v", err)
	}
	p.config.Horizon, p.fresh = 3, firstTraining
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.train(ctx); !errors.Is(err, context.Canceled) && err == nil {
		t.Errorf("%v", err)
	}
}
