// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"testing"

	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

// series has a sample each 100 us; the second flow has its half from sample `fair`
// on, the link is full from sample `full` on.
func series(n, fair, full int) *Series {
	s := &Series{FlowBps: make([][]float64, 2)}
	for i := range n {
		s.AtNs = append(s.AtNs, int64(i+1)*100_000)
		share := .1
		if i >= fair {
			share = .5
		}
		use := .5
		if i >= full {
			use = 1
		}
		s.Utilisation = append(s.Utilisation, use)
		s.FlowBps[0] = append(s.FlowBps[0], (1-share)*use)
		s.FlowBps[1] = append(s.FlowBps[1], share*use)
	}
	return s
}

func TestConvergence(t *testing.T) {
	const us, ms = scenario.Time(1000), scenario.Time(1e6)
	for name, c := range map[string]struct {
		s          *Series
		from, want scenario.Time
		fair       []bool
	}{
		"at once": {series(100, 0, 0), 0, 0, []bool{true, true}},
		// Eight of the ten samples of a window must be fair for Jain's index to be
		// above 0.95.
		"fair from 3 ms":          {series(100, 30, 0), 0, 2800 * us, []bool{true, true}},
		"counted from 2 ms":       {series(100, 30, 0), 2 * ms, 800 * us, []bool{true, true}},
		"was so before":           {series(100, 30, 0), 5 * ms, 0, []bool{true, true}},
		"only one counts":         {series(100, 30, 0), 0, 0, []bool{true, false}},
		"full from 2 ms":          {series(100, 0, 20), 0, 1800 * us, []bool{true, true}},
		"never fair":              {series(100, 200, 0), 0, Never, []bool{true, true}},
		"too late to tell":        {series(100, 95, 0), 0, Never, []bool{true, true}},
		"counted from its end on": {series(100, 0, 0), 10 * ms, Never, []bool{true, true}},
	} {
		if got := scenario.Time(c.s.convergence(c.from, c.fair)); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
