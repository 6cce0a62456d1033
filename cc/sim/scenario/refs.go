// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Hosts is a set of hosts: 3, 1-8, [0, 2, 4-7] or all.
type Hosts struct {
	All  bool
	List []int
	line int
}

func (h *Hosts) UnmarshalYAML(n *yaml.Node) error {
	h.line = n.Line
	items := []*yaml.Node{n}
	seen := map[int]bool{}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	for _, item := range items {
		if item.Kind == yaml.ScalarNode && item.Value == "all" && len(items) == 1 {
			h.All = true
			return nil
		}
		first, last, err := hostRange(item.Value)
		if err != nil || item.Kind != yaml.ScalarNode {
			return fmt.Errorf("line %d: %q are no hosts: write for example 3, 1-8, [0, 2, 4-7] or all", item.Line, item.Value)
		}
		for i := first; i <= last; i++ {
			if seen[i] {
				return fmt.Errorf("line %d: host %d stands twice", item.Line, i)
			}
			seen[i] = true
			h.List = append(h.List, i)
		}
	}
	return nil
}

const maxHosts = 1 << 14 // the simulator has no more links

func hostRange(s string) (first, last int, err error) {
	a, b, isRange := strings.Cut(s, "-")
	if first, err = strconv.Atoi(strings.TrimSpace(a)); err != nil {
		return 0, 0, err
	}
	last = first
	if isRange {
		if last, err = strconv.Atoi(strings.TrimSpace(b)); err != nil {
			return 0, 0, err
		}
	}
	if first < 0 || last < first || last > maxHosts {
		return 0, 0, strconv.ErrRange
	}
	return first, last, nil
}

// Of lists the hosts of a topology of n.
func (h Hosts) Of(n int) []int {
	if !h.All {
		return h.List
	}
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// Link is one direction of a link: "down 0" from the switch to host 0, "up 3" from
// host 3 to its switch, "trunk 1" between switches in the direction of growing
// numbers, "trunk 1 back" against it.
type Link struct {
	Kind   string // down, up, trunk; "" for none
	Number int
	Back   bool
	line   int
}

func (l *Link) UnmarshalYAML(n *yaml.Node) error {
	words := strings.Fields(n.Value)
	ok := len(words) == 2 && (words[0] == "down" || words[0] == "up") ||
		(len(words) == 2 || len(words) == 3 && words[2] == "back") && words[0] == "trunk"
	if ok {
		var err error
		l.Number, err = strconv.Atoi(words[1])
		ok = err == nil && l.Number >= 0
	}
	if !ok || n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: %q is no link: write down 0 (switch to host 0), up 3 (host 3 to switch), trunk 1 or trunk 1 back", n.Line, n.Value)
	}
	l.Kind, l.Back, l.line = words[0], len(words) == 3, n.Line
	return nil
}

// Same says whether both are the same direction of one link.
func (l Link) Same(m Link) bool { return l.Kind == m.Kind && l.Number == m.Number && l.Back == m.Back }

func (l Link) String() string {
	switch {
	case l.Kind == "":
		return "none"
	case l.Back:
		return fmt.Sprintf("%s %d back", l.Kind, l.Number)
	}
	return fmt.Sprintf("%s %d", l.Kind, l.Number)
}

// Scheme is a name, or a mapping with the scheme's parameters and its name:
//
//   - fourcase
//   - {name: swift, target: 25us}
//
// Label tells two of one name apart; it is the name if not given.
type Scheme struct {
	Name   string
	Label  string
	Params []Param
	Line   int // line in its file, 0 = in none
}

// Param is one parameter as it was written; the scheme reads it.
type Param struct {
	Name, Value string
	line        int
}

func (s *Scheme) UnmarshalYAML(n *yaml.Node) error {
	s.Line = n.Line
	switch n.Kind {
	case yaml.ScalarNode:
		s.Name, s.Label = n.Value, n.Value
		return nil
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			if v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
				return fmt.Errorf("line %d: %s needs one value", k.Line, k.Value)
			}
			switch k.Value {
			case "name":
				s.Name = v.Value
			case "label":
				s.Label = v.Value
			default:
				s.Params = append(s.Params, Param{k.Value, v.Value, k.Line})
			}
		}
		if s.Label == "" {
			s.Label = s.Name
		}
		if s.Name != "" {
			return nil
		}
	}
	return fmt.Errorf("line %d: a scheme is a name, or {name: ..., PARAMETER: ...}", n.Line)
}
