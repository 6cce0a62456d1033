// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// validation is a part of the validation that can run on its own.
type validation struct {
	name string
	run  func() ([]Row, error)
}

// controls are the experiments with few flows, shortened to a share of their
// length.
func controls(scale float64) []validation {
	short := func(d time.Duration) time.Duration { return time.Duration(float64(d) * scale) }
	return []validation{
		{"2:1 incast", func() ([]Row, error) { return twoToOne(short(20 * time.Millisecond)) }},
		{"late joiner", func() ([]Row, error) { return lateJoiner(short(400 * time.Millisecond)) }},
		{"N flows", func() ([]Row, error) { return rootN([]int{16, 64, 256, 1024}, short(30*time.Millisecond)) }},
		{"more flows than packets", func() ([]Row, error) { return manyFlows(50, 100, short(200*time.Millisecond)) }},
		{"credits, incast", func() ([]Row, error) { return creditIncast(short(4 * time.Millisecond)) }},
		{"credits, convergence", func() ([]Row, error) { return convergence(short(100 * time.Millisecond)) }},
		{"credits, first round trip", func() ([]Row, error) { return firstRoundTrip(short(4 * time.Millisecond)) }},
	}
}

// Full runs everything, so many runs at a time: two to three minutes of one core
// in all. progress is told of each part that has ended, by one goroutine at a
// time. Rows are in the order of their numbers and do not depend on workers.
func Full(workers int, progress func(string)) ([]Row, error) {
	var rows []Row
	for i := range completions {
		r, err := completions[i].run(1, workers, progress)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r...)
	}
	all := controls(1)
	parts := make([][]Row, len(all))
	err := parallel(workers, len(all), func(i int) (string, error) {
		r, err := all[i].run()
		if err != nil {
			return "", fmt.Errorf("%s: %w", all[i].name, err)
		}
		parts[i] = r
		return all[i].name, nil
	}, progress)
	if err != nil {
		return nil, err
	}
	rows = append(rows, slices.Concat(parts...)...)
	slices.SortStableFunc(rows, func(a, b Row) int {
		if v := strings.Compare(b.ID[:1], a.ID[:1]); v != 0 {
			return v // V before E
		}
		return strings.Compare(a.ID, b.ID)
	})
	return rows, nil
}

// parallel does n things, so many at a time, and returns the first error.
func parallel(workers, n int, do func(int) (string, error), progress func(string)) error {
	var (
		wait  sync.WaitGroup
		mutex sync.Mutex
		first error
		slots = make(chan struct{}, max(workers, 1))
	)
	for i := range n {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			what, err := do(i)
			mutex.Lock()
			defer mutex.Unlock()
			if err != nil && first == nil {
				first = err
			} else if err == nil {
				progress(what)
			}
		})
	}
	wait.Wait()
	return first
}
