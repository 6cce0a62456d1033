// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/softroce/softroce-xdp/cc/sim"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
	"github.com/softroce/softroce-xdp/cc/sim/schemes"
	"github.com/softroce/softroce-xdp/internal/texts"
)

// The schemes of a scenario that names none: ours, and each of the published ones as its
// paper's followers run it. Where switches have queues by size, those whose data waits for
// credits are left out: it leaves no queue to order.
var (
	usual           = []string{"fourcase", "fourcase-rate", "precredit-one-queue", "fourcase-precredit", "literal", "dcqcn", "timely", "dctcp", "swift", "hpcc", "expresspass"}
	usualCompletion = []string{"fourcase", "precredit-one-queue", "dcqcn", "timely", "dctcp", "swift", "hpcc", "expresspass", "aeolus"}
	usualBySize     = []string{"fourcase", "fourcase-low-priority", "fourcase-precredit", "dcqcn", "timely", "dctcp", "swift", "hpcc"}
)

// Usual are the schemes of a scenario that names none.
func Usual(s *scenario.Scenario) (all []scenario.Scheme) {
	names := usual
	switch {
	case s.Group == scenario.Completion && s.Switch.Queues > 1:
		names = usualBySize
	case s.Group == scenario.Completion:
		names = usualCompletion
	}
	for _, name := range names {
		all = append(all, scenario.Scheme{Name: name, Label: name})
	}
	return all
}

// Schemes are those to run in a scenario: its own or the usual ones, and of these
// only the chosen, if any are. A chosen one that is not among them is taken from
// the simulator's table. Names and parameters are checked.
func Schemes(s *scenario.Scenario, chosen []string) ([]scenario.Scheme, error) {
	all := s.Schemes
	if len(all) == 0 {
		all = Usual(s)
	}
	if len(chosen) > 0 {
		var err error
		if all, err = choose(all, chosen); err != nil {
			return nil, err
		}
	}
	for _, x := range all {
		if _, err := newScheme(x); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func choose(all []scenario.Scheme, chosen []string) (picked []scenario.Scheme, err error) {
	for _, name := range chosen {
		name = strings.TrimSpace(name)
		if slices.ContainsFunc(picked, func(x scenario.Scheme) bool { return x.Label == name }) {
			return nil, fmt.Errorf("scheme %q is chosen twice", name)
		}
		i := slices.IndexFunc(all, func(x scenario.Scheme) bool { return x.Label == name })
		switch {
		case i >= 0:
			picked = append(picked, all[i])
		case slices.Contains(schemes.Names(), name):
			picked = append(picked, scenario.Scheme{Name: name, Label: name})
		default:
			names := schemes.Names()
			for _, x := range all {
				if !slices.Contains(names, x.Label) {
					names = append(names, x.Label)
				}
			}
			return nil, texts.UnknownName(name, "scheme", names)
		}
	}
	return picked, nil
}

// newScheme makes one with the scenario's parameters.
func newScheme(x scenario.Scheme) (sim.Scheme, error) {
	var params []schemes.Param
	for _, p := range x.Params {
		params = append(params, schemes.Param{Name: p.Name, Value: p.Value})
	}
	s, err := schemes.New(x.Name, params...)
	if err != nil && x.Line > 0 {
		return nil, fmt.Errorf("line %d: %w", x.Line, err)
	}
	return s, err
}
