// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"testing"

	"github.com/softroce/softroce-xdp/cc/sim/experiment"
)

// The median is shown with its range where the range shows.
func TestSpread(t *testing.T) {
	text := func(v float64) string { return fmt.Sprintf("%.2f", v) }
	for _, c := range []struct {
		values []float64
		want   string
	}{
		{nil, "-"},
		{[]float64{1.5}, "1.50"},
		{[]float64{1.501, 1.502, 1.503}, "1.50"},
		{[]float64{1, 2, 4}, "2.00 (1.00..4.00)"},
	} {
		if got := spreadOf(c.values, text); got != c.want {
			t.Errorf("%v: %s, want %s", c.values, got, c.want)
		}
	}
}

// Scenarios of long flows show the median and the range, and mark what misses in any seed.
func TestFigures(t *testing.T) {
	group := control(t, map[string]float64{"hpcc": .96}, "hpcc")
	for _, utilisation := range []float64{.94, .97} {
		group[0].Results = append(group[0].Results, &experiment.Result{Values: map[string]float64{"utilisation": utilisation, "loss": 0}})
	}
	row := figures(group).Rows[0]
	if got, want := row[1], "0.960 (0.940..0.970) !"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := row[len(row)-1], "MISSED utilisation"; got != want {
		t.Errorf("verdict %q, want %q", got, want)
	}
}
