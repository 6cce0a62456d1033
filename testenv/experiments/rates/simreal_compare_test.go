// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/cc/sim/experiment"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

// TestApart: a real figure may be off the simulated one by its tolerance, either way, and
// by no more; of several runs the median counts.
func TestApart(t *testing.T) {
	base := map[string]float64{"utilisation": .9, "jain": .95, "queue-p50": 20 * ms, "queue-p99": 40 * ms, "loss": .01}
	result := func(metric string, v float64) *experiment.Result {
		r := &experiment.Result{Values: map[string]float64{}}
		for m, x := range base {
			r.Values[m] = x
		}
		r.Values[metric] = v
		return r
	}
	for name := range simRealScenarios(t) {
		for by := range tolerances {
			for _, tol := range toleranceOf(name, by) {
				p := Pair{Scenario: &scenario.Scenario{Name: name}, By: by, Simulated: []*experiment.Result{result("loss", .01)}}
				for _, c := range []struct {
					v     float64
					apart bool
				}{
					{base[tol.Metric], false},
					{base[tol.Metric] - .99*tol.Below, false}, {base[tol.Metric] - 1.01*tol.Below, true},
					{base[tol.Metric] + .99*tol.Above, false}, {base[tol.Metric] + 1.01*tol.Above, true},
				} {
					r := result(tol.Metric, c.v)
					p.Real = []*experiment.Result{r, result(tol.Metric, 0), r}
					if got := p.Apart(); (len(got) == 1) != c.apart || c.apart && !strings.HasPrefix(got[0], tol.Metric) {
						t.Errorf("%s by %s, %s %v and %v: %q", name, by, tol.Metric, c.v, base[tol.Metric], got)
					}
				}
				if tol.Why == "" {
					t.Errorf("%s by %s, %s: tolerated without a reason", name, by, tol.Metric)
				}
			}
		}
	}
	for x := range exceptions {
		name, by, _ := strings.Cut(x, " by ")
		if simRealScenarios(t)[name] == nil || tolerances[by] == nil {
			t.Errorf("there is no %s", x)
		}
	}
}
