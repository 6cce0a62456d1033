// SPDX-License-Identifier: Apache-2.0

package schemes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/softroce/softroce-xdp/cc/sim"
)

// Param is one parameter as a scenario writes it: window, true.
type Param struct{ Name, Value string }

// Entry is a scheme of the table.
type Entry struct {
	Name, About string
	make        func() settings
}

// settings are a scheme's parameters before they are used.
type settings interface {
	// fields are the parameters, as pointers into the settings.
	fields() []field
	// scheme makes a scheme of them, or tells what is wrong.
	scheme(name string) (sim.Scheme, error)
}

// table has each scheme's file list its own entries.
var table = slices.Concat(
	fourcaseEntries,
	dcqcnEntries,
	timelyEntries,
	dctcpEntries,
	hpccEntries,
	swiftEntries,
	expresspassEntries,
	precreditEntries,
)

// List is the table, in the order of reports.
func List() []Entry { return slices.Clone(table) }

// Names are the names of all schemes.
func Names() []string {
	var names []string
	for _, e := range table {
		names = append(names, e.Name)
	}
	return names
}

// Params lists an entry's parameters: name, default and meaning.
func (e Entry) Params() [][3]string {
	var all [][3]string
	for _, f := range e.make().fields() {
		all = append(all, [3]string{f.name, f.show(), f.about})
	}
	return all
}

// New makes the scheme of that name. A scheme serves one run.
func New(name string, params ...Param) (sim.Scheme, error) {
	i := slices.IndexFunc(table, func(e Entry) bool { return e.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("no scheme %q: there are %s", name, strings.Join(Names(), ", "))
	}
	s := table[i].make()
	fields := s.fields()
	for _, p := range params {
		j := slices.IndexFunc(fields, func(f field) bool { return f.name == p.Name })
		if j < 0 {
			var known []string
			for _, f := range fields {
				known = append(known, f.name)
			}
			return nil, fmt.Errorf("scheme %s has no parameter %q: it has %s", name, p.Name, strings.Join(known, ", "))
		}
		if err := fields[j].set(p.Value); err != nil {
			return nil, fmt.Errorf("scheme %s, %s: %w", name, p.Name, err)
		}
	}
	return s.scheme(name)
}
