// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// strict looks for keys that the type does not have, and for keys that stand
// twice, before the library decodes the node. The library's own check names Go
// types; this one names the line and the key that was probably meant.
func strict(n *yaml.Node, t reflect.Type) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.Unmarshaler]()) {
		return nil // checks itself
	}
	switch {
	case t.Kind() == reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			return fmt.Errorf("line %d: expected a list (lines that begin with -)", n.Line)
		}
		for _, item := range n.Content {
			if err := strict(item, t.Elem()); err != nil {
				return err
			}
		}
	case t.Kind() == reflect.Struct:
		return strictKeys(n, t)
	case n.Kind != yaml.ScalarNode:
		return fmt.Errorf("line %d: expected one value", n.Line)
	}
	return nil
}

func strictKeys(n *yaml.Node, t reflect.Type) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: expected keys with values: %s", n.Line, strings.Join(keysOf(t), ", "))
	}
	lines := map[string]int{}
	for i := 0; i < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if line, twice := lines[k.Value]; twice {
			return fmt.Errorf("line %d: %s stands in line %d already", k.Line, k.Value, line)
		}
		lines[k.Value] = k.Line
		field, ok := fieldOf(t, k.Value)
		if !ok {
			return unknown(k, "key", keysOf(t))
		}
		if v.Kind == yaml.ScalarNode && v.Tag == "!!null" {
			return fmt.Errorf("line %d: %s needs a value", k.Line, k.Value)
		}
		if err := strict(v, field.Type); err != nil {
			return err
		}
	}
	return nil
}

func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		if f := t.Field(i); tagOf(f) == key && key != "-" {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func keysOf(t reflect.Type) (keys []string) {
	for i := range t.NumField() {
		if tag := tagOf(t.Field(i)); tag != "-" && tag != "" {
			keys = append(keys, tag)
		}
	}
	return keys
}

func tagOf(f reflect.StructField) string {
	tag, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return tag
}

// unknown is the error about a name that is none of those there are.
func unknown(n *yaml.Node, what string, names []string) error {
	return fmt.Errorf("line %d: %w", n.Line, UnknownName(n.Value, what, names))
}

// UnknownName is the error about a name that is none of those there are; it says
// which was probably meant.
func UnknownName(name, what string, names []string) error {
	if near := Nearest(name, names); near != "" {
		return fmt.Errorf("there is no %s %q: did you mean %s? There are %s", what, name, near, strings.Join(names, ", "))
	}
	return fmt.Errorf("there is no %s %q: choose %s", what, name, strings.Join(names, ", "))
}

// Nearest is the name that takes the fewest changes of a letter to write, "" if
// none is near.
func Nearest(name string, names []string) string {
	best, at := 1+max(2, len(name)/3), ""
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < best {
			best, at = d, n
		}
	}
	return at
}

// distance counts letters to change, add or take away (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := slices.Clone(row)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(before[j]+cost, before[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
