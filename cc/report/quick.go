// SPDX-License-Identifier: Apache-2.0

package report

import "github.com/softroce/softroce-xdp/cc/sim/scenario"

// Quick makes a short scenario of one of the library: a tenth of the time, one
// seed, a small network. Its figures mean little; that it runs and gives the same
// figures as yesterday does.
func Quick(s *scenario.Scenario) {
	s.Seeds = s.Seeds[:1]
	const tenth = 10
	from, to := s.Measure.From, s.Measure.To
	switch {
	case to >= 1e9: // seconds, for drift
		from, to = from/tenth, to/tenth/tenth
	case s.Group == scenario.Control:
		from, to = from/tenth, from/tenth+(to-from)/tenth
	default:
		from, to = from/tenth, to/tenth
		s.Measure.Drain /= tenth
	}
	switch s.Topology.Kind {
	case "fat-tree":
		s.Topology.K = 4
	case "leaf-spine":
		s.Topology.Hosts = min(s.Topology.Hosts, 64)
	}
	for i := range s.Events {
		s.Events[i].At = min(s.Events[i].At/tenth, to)
	}
	for _, t := range s.Traffic {
		if t.Workload != nil {
			t.Workload.From, t.Workload.To = t.Workload.From/tenth, min(t.Workload.To, to)
		}
		if t.Incast != nil {
			t.Incast.From, t.Incast.To = t.Incast.From/tenth, min(t.Incast.To, to)
		}
		if t.Flows != nil {
			t.Flows.Start /= tenth
		}
	}
	s.Measure.From, s.Measure.To = from, to
	s.Measure.Converge /= tenth
	if s.Clocks.Step != nil {
		s.Clocks.Step.At /= tenth
	}
}
