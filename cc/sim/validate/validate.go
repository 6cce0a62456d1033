// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"slices"
	"time"
)

// experiment is a part of the validation that can run on its own.
type experiment struct {
	name string
	run  func(progress func(string)) ([]Row, error)
}

// experiments are all, with runs shortened to a share of their length.
func experiments(scale float64) []experiment {
	short := func(d time.Duration) time.Duration { return time.Duration(float64(d) * scale) }
	var all []experiment
	for i := range completions {
		c := &completions[i]
		all = append(all, experiment{c.name, func(progress func(string)) ([]Row, error) { return c.run(scale, progress) }})
	}
	quiet := func(run func() ([]Row, error)) func(func(string)) ([]Row, error) {
		return func(func(string)) ([]Row, error) { return run() }
	}
	return append(all,
		experiment{"2:1 incast", quiet(func() ([]Row, error) { return twoToOne(short(20 * time.Millisecond)) })},
		experiment{"late joiner", quiet(func() ([]Row, error) { return lateJoiner(short(400 * time.Millisecond)) })},
		experiment{"N flows", quiet(func() ([]Row, error) { return rootN([]int{16, 64, 256, 1024}, short(30*time.Millisecond)) })},
		experiment{"more flows than packets", quiet(func() ([]Row, error) { return manyFlows(50, 100, short(200*time.Millisecond)) })},
	)
}

// Full runs everything: a few minutes of one core. progress is told of each run
// that has ended. Rows are in the order of their numbers.
func Full(progress func(string)) ([]Row, error) {
	var rows []Row
	for _, e := range experiments(1) {
		r, err := e.run(progress)
		if err != nil {
			return nil, err
		}
		progress(e.name)
		rows = append(rows, r...)
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		switch {
		case a.ID < b.ID:
			return -1
		case a.ID > b.ID:
			return 1
		}
		return 0
	})
	return rows, nil
}
