// SPDX-License-Identifier: Apache-2.0

package files

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/softroce/softroce-xdp/internal/texts"
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
	if t == reflect.TypeFor[netip.Addr]() {
		return checkAddress(n)
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

// checkAddress words the error, which the library passes on as it is and without a line.
func checkAddress(n *yaml.Node) error {
	if _, err := netip.ParseAddr(n.Value); n.Kind != yaml.ScalarNode || err != nil {
		return fmt.Errorf("line %d: %q is no IP address: write for example 10.0.0.1 or fd00::1", n.Line, n.Value)
	}
	return nil
}

func strictKeys(n *yaml.Node, t reflect.Type) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: expected keys with values: %s", n.Line, strings.Join(YAMLKeys(t), ", "))
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
			return fmt.Errorf("line %d: %w", k.Line, texts.UnknownName(k.Value, "key", YAMLKeys(t)))
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

// YAMLKeys are those of a struct type.
func YAMLKeys(t reflect.Type) (keys []string) {
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
