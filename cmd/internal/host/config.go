// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/softroce/softroce-xdp/internal/files"
)

// The configuration file has no list of settings: the keys are the names of flags, and a key has the values of its flag.
//
//	log-level: info
//	defaults:            # flags of attach, for every interface
//	  rate: 25G
//	  policy: {target: 500us}
//	interfaces:
//	  eth0:
//	    rate: 100G
//	  eth1:

// DefaultPath is the path of the file unless --config names another one. It need not exist.
const DefaultPath = "/etc/softroce-xdp/config.yaml"

// A File is a configuration that was read.
type File struct {
	Path string

	global     []setting
	defaults   []setting
	interfaces map[string][]setting
	order      []string
}

// setting is one key with where it stands; policy parameters are key "policy"
// and value "name=value".
type setting struct {
	key, value string
	line       int
}

// Read reads a file. The error wraps fs.ErrNotExist if there is none. With any other error it
// also returns the part that could be parsed.
func Read(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parse(path, f)
}

// ReadDefault is Read of DefaultPath; without a file it returns an empty one.
func ReadDefault() (*File, error) {
	f, err := Read(DefaultPath)
	if errors.Is(err, fs.ErrNotExist) {
		return &File{Path: DefaultPath}, nil
	}
	return f, err
}

func parse(path string, r io.Reader) (*File, error) {
	f := &File{Path: path, interfaces: map[string][]setting{}}
	doc, err := files.YAMLDocument(r)
	if errors.Is(err, files.ErrEmpty) {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("%s: %w", path, err)
	}
	var first error // a bad section does not hide the keys below it
	err = eachKey(doc, func(k, v *yaml.Node) error {
		first = cmp.Or(first, f.section(k, v))
		return nil
	})
	if err = cmp.Or(first, err); err != nil {
		return f, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// section reads one key of the top level.
func (f *File) section(k, v *yaml.Node) (err error) {
	switch k.Value {
	case "defaults":
		f.defaults, err = settings(v)
	case "interfaces":
		err = eachKey(v, func(name, v *yaml.Node) error {
			s, err := settings(v)
			f.interfaces[name.Value] = s
			f.order = append(f.order, name.Value)
			return err
		})
	default:
		var s setting
		if s, err = scalar(k, v); err == nil {
			f.global = append(f.global, s)
		}
	}
	return err
}

// eachKey walks a mapping. A key without a value counts as an empty mapping.
func eachKey(n *yaml.Node, visit func(k, v *yaml.Node) error) error {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: expected keys with values", n.Line)
	}
	seen := map[string]int{}
	for i := 0; i < len(n.Content); i += 2 {
		k := n.Content[i]
		if line, twice := seen[k.Value]; twice {
			return fmt.Errorf("line %d: %s stands in line %d already", k.Line, k.Value, line)
		}
		seen[k.Value] = k.Line
		if err := visit(k, n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func settings(n *yaml.Node) (out []setting, err error) {
	err = eachKey(n, func(k, v *yaml.Node) error {
		if k.Value != "policy" {
			s, err := scalar(k, v)
			out = append(out, s)
			return err
		}
		return eachKey(v, func(k, v *yaml.Node) error {
			s, err := scalar(k, v)
			out = append(out, setting{"policy", s.key + "=" + s.value, s.line})
			return err
		})
	})
	return out, err
}

func scalar(k, v *yaml.Node) (setting, error) {
	if v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
		return setting{}, fmt.Errorf("line %d: %s needs one value", k.Line, k.Value)
	}
	return setting{k.Value, v.Value, k.Line}, nil
}

// Interfaces lists those that the file names, in its order.
func (f *File) Interfaces() []string { return slices.Clone(f.order) }

// Global sets the flags of every command, except those that the command line has
// set already. With names it sets only those, and ignores the other keys.
func (f *File) Global(flags *pflag.FlagSet, names ...string) error {
	for _, s := range f.global {
		if len(names) > 0 && !slices.Contains(names, s.key) {
			continue
		}
		if fl := flags.Lookup(s.key); fl != nil && fl.Changed {
			continue
		}
		if err := f.set(flags, s); err != nil {
			return err
		}
	}
	return nil
}

// Sets reports whether the file has that flag of every command; a nil file has none.
func (f *File) Sets(name string) bool {
	return f != nil && slices.ContainsFunc(f.global, func(s setting) bool { return s.key == name })
}

// Interface sets the flags of one interface: the file's defaults, then its own. They
// count as changed then.
func (f *File) Interface(name string, flags *pflag.FlagSet) error {
	for _, s := range slices.Concat(f.defaults, f.interfaces[name]) {
		if err := f.set(flags, s); err != nil {
			return err
		}
		flags.Lookup(s.key).Changed = true
	}
	return nil
}

func (f *File) set(flags *pflag.FlagSet, s setting) error {
	fl := flags.Lookup(s.key)
	if fl == nil {
		var names []string
		flags.VisitAll(func(x *pflag.Flag) { names = append(names, x.Name) })
		return fmt.Errorf("%s: line %d: no setting %q here: choose %s", f.Path, s.line, s.key, strings.Join(names, ", "))
	}
	if err := fl.Value.Set(s.value); err != nil {
		return fmt.Errorf("%s: line %d: %s: %w", f.Path, s.line, s.key, err)
	}
	return nil
}
