// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"context"
	"fmt"
)

// Candidate is one of those that are compared. A measurement gives figures of type F.
type Candidate[F any] struct {
	Name    string
	Measure func(context.Context) (F, error)
}

func (c *Candidate[F]) measure(ctx context.Context) (f F, err error) {
	if err := ctx.Err(); err != nil {
		return f, err
	}
	if f, err = c.Measure(ctx); err != nil {
		return f, fmt.Errorf("%s: %w", c.Name, err)
	}
	return f, nil
}

// Runs are the measurements of one candidate, one for each round.
type Runs[F any] []F

// Series returns one figure of each round.
func (r Runs[F]) Series(figure func(F) float64) Series {
	out := make(Series, len(r))
	for i, f := range r {
		out[i] = figure(f)
	}
	return out
}

// Turns measures each candidate once in each round, so that what else the machine does hits all of them alike. Each
// is the first one of a round once in a while. It returns the runs of the candidates in their order.
func Turns[F any](ctx context.Context, rounds int, all ...Candidate[F]) ([]Runs[F], error) {
	runs := make([]Runs[F], len(all))
	for round := range rounds {
		for turn := range all {
			i := (round + turn) % len(all)
			f, err := all[i].measure(ctx)
			if err != nil {
				return nil, err
			}
			runs[i] = append(runs[i], f)
		}
	}
	return runs, nil
}

// Referred are the runs of candidates, and those of a reference right before and right after each of them.
type Referred[F any] struct {
	Runs      []Runs[F] // runs of each candidate
	Reference Runs[F]   // all of the reference
	before    [][]int   // index of the reference's run right before each run of each candidate
}

// Refer measures a reference at first and after each candidate, as the speed of a machine may change within seconds.
func Refer[F any](ctx context.Context, rounds int, reference Candidate[F], all ...Candidate[F]) (r Referred[F], err error) {
	r.Runs, r.before = make([]Runs[F], len(all)), make([][]int, len(all))
	refer := func() error {
		f, err := reference.measure(ctx)
		r.Reference = append(r.Reference, f)
		return err
	}
	if err := refer(); err != nil {
		return r, err
	}
	for round := range rounds {
		for turn := range all {
			i := (round + turn) % len(all)
			r.before[i] = append(r.before[i], len(r.Reference)-1)
			f, err := all[i].measure(ctx)
			if err != nil {
				return r, err
			}
			r.Runs[i] = append(r.Runs[i], f)
			if err := refer(); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// Around returns the reference's figure for each round of a candidate: the mean of right before and right after it.
func (r *Referred[F]) Around(candidate int, figure func(F) float64) Series {
	var out Series
	for _, i := range r.before[candidate] {
		out = append(out, (figure(r.Reference[i])+figure(r.Reference[i+1]))/2)
	}
	return out
}

// Shares returns a candidate's figure over that of the reference, round by round.
func (r *Referred[F]) Shares(candidate int, figure func(F) float64) Series {
	return r.Runs[candidate].Series(figure).Over(r.Around(candidate, figure))
}
