// SPDX-License-Identifier: Apache-2.0

package oracle_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/testenv/oracle"
	"github.com/softroce/softroce-xdp/testenv/oracle/sides"
)

// TestCardAgainstCard runs the cases between two models of the card, joined by a cable: the driver
// of a card as a verbs.Device (hwoffload/driver) as both sides. It needs no machine and no privilege.
func TestCardAgainstCard(t *testing.T) {
	x, y, err := sides.Cabled()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(x.Close(), y.Close()); err != nil {
			t.Error(err)
		}
		for _, s := range []*sides.Side{x, y} {
			if s.Used() {
				t.Errorf("%s: card memory is not free at the end", s.Name())
			}
		}
	})
	ctx := context.Background()
	b := &oracle.Bench{A: x, B: y}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	impaired := func(c oracle.Case) bool { return c.Netem != "" }
	oracle.RunTable(ctx, t, b, slices.DeleteFunc(oracle.QuickCases(), impaired))
	for _, r := range oracle.Refusals() {
		t.Run(r.Name, func(t *testing.T) {
			if err := b.Refuse(ctx, r, false); err != nil {
				t.Error(err)
			}
		})
	}
	for _, s := range oracle.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			if err := s.Run(ctx, x, y); err != nil {
				t.Error(err)
			}
		})
	}
}
