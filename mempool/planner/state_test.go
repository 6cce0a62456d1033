// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/predict"
)

const page = 4096

// steps gives a planner the demands of a node: every eighth is 3 times the others.
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

// run runs Run until it has stored the samples.
func run(p *Planner) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p.Run(ctx)
}

// The newest samples of each node are kept, fewer of each where there are many nodes.
func TestSamplesAreBounded(t *testing.T) {
	s := samples{}
	for i := range uint64(3 * maxPerNode) {
		s.add(1, predict.Sample{Demand: i})
	}
	if list := s[1]; len(list) != maxPerNode || list[maxPerNode-1].Demand != 3*maxPerNode-1 || list[0].Demand != 2*maxPerNode {
		t.Errorf("%d samples, from %d", len(list), list[0].Demand)
	}
	for id := range lease.NodeID(5000) {
		for range 2 * minPerNode {
			s.add(1000+id, predict.Sample{})
		}
	}
	if list := s[1000+4999]; len(list) != minPerNode {
		t.Errorf("%d samples of one of 5000 nodes", len(list))
	}
}

// After a restart, nodes that the table resumes have their samples and predictions. The samples of the others
// are removed.
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
	if len(p.samples) != 1 || len(p.samples[1]) != 200 {
		t.Errorf("%d nodes", len(p.samples))
	}
	// A new node has the number of another one, because the state of the leases was removed.
	p = open(t, c)
	p.Observe(1, lease.Usage{Demand: page})
	if x := p.Prediction(1); x.Periods != 1 || x.Need != page {
		t.Errorf("%+v", x)
	}
	run(p)
	p = open(t, c)
	if len(p.resting) != 1 || len(p.resting[1]) != 1 {
		t.Errorf("the file has %+v", p.resting)
	}
}

func TestBadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "samples")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]string{"{": "remove it", `{"version":9}`: "version 9, and this program has version 1: remove it"} {
		write(text)
		if _, err := Open(Config{File: path}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", text, err)
		}
	}
	// Samples that cannot be true are left out, and so is what earlier versions had in the file.
	write(`{"version":1,"origin":{"trainings":3},"weights":{"sizes":[7,4,1]},"fresh":2,"nodes":[{"id":1,"samples":[[1,9,2],[5,1,2]]}],"gone":[[[5,1,2]]]}`)
	p := open(t, Config{File: path})
	p.Resume(1, lease.Usage{})
	if want := []predict.Sample{{Demand: 5, Touched: 1, Leased: 2}}; p.Prediction(1).Periods != 1 || !slices.Equal(p.samples[1], want) {
		t.Errorf("%+v of %+v", p.Prediction(1), p.samples[1])
	}
}

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
