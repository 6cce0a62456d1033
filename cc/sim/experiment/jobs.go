// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"context"
	"fmt"
	"sync"

	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

// Job is one run.
type Job struct {
	Scenario *scenario.Scenario
	Scheme   scenario.Scheme
	Seed     uint64
}

func (j Job) String() string {
	return fmt.Sprintf("%s, %s, seed %d", j.Scenario.Name, j.Scheme.Label, j.Seed)
}

// Jobs are a scenario's runs: every scheme with every seed.
func Jobs(s *scenario.Scenario, schemes []scenario.Scheme) (jobs []Job) {
	for _, scheme := range schemes {
		for _, seed := range s.Seeds {
			jobs = append(jobs, Job{s, scheme, seed})
		}
	}
	return jobs
}

// Progress is told how far a job is, from the goroutine that runs it: 0 when the
// network is built and its flows are known, 1 at the end.
type Progress func(job int, share float64)

// RunAll runs the jobs, so many at a time, and returns their results in their
// order. The first error ends it; so does the context.
func RunAll(ctx context.Context, jobs []Job, parallel int, progress Progress) ([]*Result, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	results := make([]*Result, len(jobs))
	next := make(chan int)
	var workers sync.WaitGroup
	for range max(1, min(parallel, len(jobs))) {
		workers.Go(func() {
			for i := range next {
				r, err := Run(ctx, jobs[i], func(share float64) { progress(i, share) })
				if err != nil {
					stop(fmt.Errorf("%v: %w", jobs[i], err))
					return
				}
				results[i] = r
			}
		})
	}
feed:
	for i := range jobs {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	workers.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return results, nil
}

// Summaries groups results by scenario and scheme, in the order of the jobs.
func Summaries(jobs []Job, results []*Result) (all []*Summary) {
	for i, j := range jobs {
		if n := len(all); n == 0 || all[n-1].Scenario != j.Scenario || all[n-1].Scheme != j.Scheme.Label {
			all = append(all, &Summary{Scenario: j.Scenario, Scheme: j.Scheme.Label})
		}
		last := all[len(all)-1]
		last.Results = append(last.Results, results[i])
	}
	return all
}
