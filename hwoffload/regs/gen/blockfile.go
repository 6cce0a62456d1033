// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/softroce/softroce-xdp/hwoffload/regs/layout"
	"github.com/softroce/softroce-xdp/internal/files"
)

// blockFile is a file of the definition.
type blockFile struct {
	Block     string         `yaml:"block"`
	Type      uint64         `yaml:"type"`
	Version   uint64         `yaml:"version"`
	Base      uint64         `yaml:"base"`
	Stride    uint64         `yaml:"stride"`
	Count     uint64         `yaml:"count"`
	Text      string         `yaml:"description"`
	Struct    string         `yaml:"struct"` // registers are the members of this C structure
	Access    string         `yaml:"access"` // access of these members
	Registers []registerFile `yaml:"registers"`
}

type registerFile struct {
	Name   string      `yaml:"name"`
	Offset uint64      `yaml:"offset"`
	Bits   uint64      `yaml:"bits"`
	Stride uint64      `yaml:"stride"`
	Count  uint64      `yaml:"count"`
	Access string      `yaml:"access"`
	Reset  uint64      `yaml:"reset"`
	Unit   string      `yaml:"unit"`
	Text   string      `yaml:"description"`
	Fields []fieldFile `yaml:"fields"`
}

type fieldFile struct {
	Name   string `yaml:"name"`
	LSB    uint64 `yaml:"lsb"`
	Bits   uint64 `yaml:"bits"`
	Access string `yaml:"access"`
	Reset  uint64 `yaml:"reset"`
	Unit   string `yaml:"unit"`
	Text   string `yaml:"description"`
}

// source is a file that is being read, with the errors found in it.
type source struct {
	name string
	root *yaml.Node
	errs []error
}

func (s *source) errorf(line int, format string, args ...any) {
	s.errs = append(s.errs, fmt.Errorf("%s: line %d: %s", s.name, line, fmt.Sprintf(format, args...)))
}

// lineOf is the line of a key of a mapping, or of the mapping if it has no such key.
func lineOf(n *yaml.Node, key string) int {
	if v := valueOf(n, key); v != nil {
		return v.Line
	}
	return n.Line
}

func valueOf(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// item is entry i of the list under a key.
func item(n *yaml.Node, key string, i int) *yaml.Node { return valueOf(n, key).Content[i] }

// readBlock reads one file of the definition. structs has the C structures that it may name.
func readBlock(path string, structs cStructs) (*layout.Block, *source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	s := &source{name: filepath.Base(path)}
	var f blockFile
	if err := files.DecodeYAML(bytes.NewReader(text), &f); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", s.name, err)
	}
	if s.root, err = files.YAMLDocument(bytes.NewReader(text)); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", s.name, err)
	}
	b := &layout.Block{Name: f.Block, Type: f.Type, Version: f.Version, Base: f.Base, Stride: f.Stride, Count: max(f.Count, 1), Text: oneLine(f.Text)}
	s.checkBlock(b)
	if f.Struct != "" {
		s.addStruct(b, &f, structs)
	}
	used := words{}
	names := map[string]bool{}
	for i := range b.Registers {
		used.add(&b.Registers[i])
		names[b.Registers[i].Name] = true
	}
	for i := range f.Registers {
		n := item(s.root, "registers", i)
		r := s.register(n, &f.Registers[i])
		if names[r.Name] {
			s.errorf(lineOf(n, "name"), "a register %s exists already in block %s: choose another name", r.Name, b.Name)
		}
		names[r.Name] = true
		if s.checkRegister(n, b, &r) {
			if other := used.add(&r); other != "" {
				s.errorf(lineOf(n, "offset"), "register %s overlaps register %s: move one of them", r.Name, other)
			}
		}
		b.Registers = append(b.Registers, r)
	}
	if len(b.Registers) == 0 {
		s.errorf(s.root.Line, "block %s has no registers: add registers, or struct", b.Name)
	}
	return b, s, errors.Join(s.errs...)
}

// register converts a register of the file. One without fields is one field of all its bits.
func (s *source) register(n *yaml.Node, f *registerFile) layout.Register {
	r := layout.Register{Name: f.Name, Offset: f.Offset, Bits: uint(min(f.Bits, 1<<16)), Stride: f.Stride, Count: max(f.Count, 1), Text: oneLine(f.Text)}
	if f.Bits == 0 {
		r.Bits = 32
	}
	if len(f.Fields) == 0 {
		whole := fieldFile{Name: f.Name, Bits: uint64(r.Bits), Access: f.Access, Reset: f.Reset, Unit: f.Unit, Text: f.Text}
		r.Fields = []layout.Field{s.field(n, &r, &whole)}
		return r
	}
	for _, key := range []string{"access", "reset", "unit"} {
		if valueOf(n, key) != nil {
			s.errorf(lineOf(n, key), "register %s has fields: give %s to them", f.Name, key)
		}
	}
	names, used := map[string]bool{}, uint64(0)
	for i := range f.Fields {
		at := item(n, "fields", i)
		x := s.field(at, &r, &f.Fields[i])
		if names[x.Name] {
			s.errorf(lineOf(at, "name"), "a field %s exists already in register %s: choose another name", x.Name, r.Name)
		}
		names[x.Name] = true
		if x.Bits > 0 {
			if used&x.Mask() != 0 {
				s.errorf(lineOf(at, "lsb"), "field %s overlaps another field of register %s: move one of them", x.Name, r.Name)
			}
			used |= x.Mask()
		}
		r.Fields = append(r.Fields, x)
	}
	return r
}

// field converts and checks a field. One that does not fit the register has no bits.
func (s *source) field(n *yaml.Node, r *layout.Register, f *fieldFile) layout.Field {
	x := layout.Field{Name: f.Name, Reset: f.Reset, Unit: f.Unit, Text: oneLine(f.Text)}
	s.checkName(n, "name", f.Name)
	if x.Text == "" {
		s.errorf(n.Line, "%s has no description", f.Name)
	}
	access, err := layout.ParseAccess(f.Access)
	if err != nil {
		s.errorf(lineOf(n, "access"), "%s: %v", f.Name, err)
	}
	x.Access = access
	switch {
	case f.Bits == 0 || f.Bits > 64 || f.LSB > 63 || f.LSB+f.Bits > uint64(r.Bits):
		s.errorf(lineOf(n, "bits"), "%s has %d bits from bit %d on, register %s has bits 0 to %d", f.Name, f.Bits, f.LSB, r.Name, r.Bits-1)
		return x
	case f.Bits < 64 && f.Reset>>f.Bits != 0:
		s.errorf(lineOf(n, "reset"), "the reset value %#x of %s does not fit %d bits: the largest is %#x", f.Reset, f.Name, f.Bits, uint64(1)<<f.Bits-1)
	case access == layout.WO && f.Reset != 0:
		s.errorf(lineOf(n, "reset"), "%s is WO and reads 0: remove its reset value %#x", f.Name, f.Reset)
	}
	x.LSB, x.Bits = uint(f.LSB), uint(f.Bits)
	return x
}

// oneLine joins the lines of a description.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
