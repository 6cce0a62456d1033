// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"testing"

	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

func TestShares(t *testing.T) {
	s := NewShares(Jobs(&scenario.Scenario{Name: "a", Seeds: []uint64{1, 2}}, []scenario.Scheme{{Label: "x"}, {Label: "y"}}))
	if got, want := s.String(), "0 % of 4 runs: a, x, seed 1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s.Report(0, 1)
	s.Report(1, 1)
	s.Report(3, .5)
	s.Report(2, .999)
	if got, want := s.String(), "87 % of 4 runs: a, y, seed 1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := NewShares(nil).String(); got != "no runs" {
		t.Errorf("%q", got)
	}
}
