// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// machine notes the order of measurements. It gets slower with each of them.
type machine struct {
	order []string
	speed float64
}

func (m *machine) candidate(name string, share float64) Candidate[float64] {
	return Candidate[float64]{name, func(context.Context) (float64, error) {
		m.order = append(m.order, name)
		m.speed--
		return share * m.speed, nil
	}}
}

func itself(v float64) float64 { return v }

func TestTurns(t *testing.T) {
	m := machine{speed: 100}
	runs, err := Turns(t.Context(), 3, m.candidate("a", 1), m.candidate("b", 1))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(m.order, ""); got != "abbaab" {
		t.Errorf("order %s", got)
	}
	if got := fmt.Sprint(runs); got != "[[99 96 95] [98 97 94]]" {
		t.Errorf("runs %s", got)
	}
}

// A candidate of half the speed has half of what the reference has around it, however the machine changes.
func TestRefer(t *testing.T) {
	m := machine{speed: 100}
	r, err := Refer(t.Context(), 2, m.candidate("-", 1), m.candidate("a", .5), m.candidate("b", .25))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(m.order, ""); got != "-a-b-b-a-" {
		t.Errorf("order %s", got)
	}
	for i, want := range []float64{.5, .25} {
		if got := r.Shares(i, itself); !slices.Equal(got, Series{want, want}) {
			t.Errorf("shares of candidate %d: %v", i, got)
		}
	}
	if got := r.Reference.Series(itself); !slices.Equal(got, Series{99, 97, 95, 93, 91}) {
		t.Errorf("reference %v", got)
	}
	if got := r.Around(1, itself); !slices.Equal(got, Series{96, 94}) {
		t.Errorf("around b %v", got)
	}
}

// A measurement that fails ends the comparison and is named, and so does the end of the context.
func TestTurnsFail(t *testing.T) {
	m := machine{speed: 100}
	broken := errors.New("no network")
	fails := Candidate[float64]{"b", func(context.Context) (float64, error) { return 0, broken }}
	if _, err := Turns(t.Context(), 3, m.candidate("a", 1), fails); !errors.Is(err, broken) || err.Error() != "b: no network" || len(m.order) != 1 {
		t.Errorf("%v after %v", err, m.order)
	}
	if _, err := Refer(t.Context(), 3, fails, m.candidate("a", 1)); !errors.Is(err, broken) || len(m.order) != 1 {
		t.Errorf("%v after %v", err, m.order)
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	if _, err := Turns(ctx, 1, m.candidate("a", 1)); !errors.Is(err, context.Canceled) || len(m.order) != 1 {
		t.Errorf("%v after %v", err, m.order)
	}
}
