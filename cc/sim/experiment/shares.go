// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"fmt"
	"sync"
)

// Shares sums up how far jobs are. Report is their Progress.
type Shares struct {
	jobs []Job

	mu     sync.Mutex
	shares []float64
	last   int // the job that reported last
}

// NewShares has all jobs at their beginning.
func NewShares(jobs []Job) *Shares {
	return &Shares{jobs: jobs, shares: make([]float64, len(jobs))}
}

// Report notes how far one job is.
func (s *Shares) Report(job int, share float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shares[job], s.last = share, job
}

// String is a line about all of them: 12 % of 40 runs: incast-8, dcqcn, seed 1.
func (s *Shares) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.jobs) == 0 {
		return "no runs"
	}
	sum := 0.0
	for _, x := range s.shares {
		sum += x
	}
	// Rounded down: 100 % is the end.
	return fmt.Sprintf("%d %% of %d runs: %v", int(100*sum/float64(len(s.shares))), len(s.jobs), s.jobs[s.last])
}
