// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/softroce/softroce-xdp/hwoffload/regs/layout"
	"github.com/softroce/softroce-xdp/internal/files"
)

// recordFile is a file of the layouts: a structure in memory, with words of 64 bits.
type recordFile struct {
	Layout string     `yaml:"layout"`
	Bytes  uint64     `yaml:"bytes"`
	Text   string     `yaml:"description"`
	Words  []wordFile `yaml:"words"`
}

type wordFile struct {
	Name   string           `yaml:"name"`
	Offset uint64           `yaml:"offset"`
	Unit   string           `yaml:"unit"`
	Text   string           `yaml:"description"`
	Fields []valueFieldFile `yaml:"fields"`
}

type valueFieldFile struct {
	Name   string      `yaml:"name"`
	LSB    uint64      `yaml:"lsb"`
	Bits   uint64      `yaml:"bits"`
	Unit   string      `yaml:"unit"`
	Text   string      `yaml:"description"`
	Values []valueFile `yaml:"values"`
}

type valueFile struct {
	Name  string `yaml:"name"`
	Value uint64 `yaml:"value"`
}

const (
	wordBits = 64
	// maxRecord bounds the length of a layout in bytes.
	maxRecord = 4096
)

// readRecords reads all YAML files of a folder of layouts, in the order of the file names.
func readRecords(dir string) ([]layout.Record, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: there is no file *.yaml", dir)
	}
	var records []layout.Record
	var errs []error
	from := map[string]string{} // file by the name of the layout
	for _, path := range paths {
		r, s, err := readRecord(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if file, taken := from[r.Name]; taken {
			s.errorf(lineOf(s.root, "layout"), "a layout %s exists already in %s: choose another name", r.Name, file)
		}
		from[r.Name] = s.name
		errs = append(errs, s.errs...)
		records = append(records, *r)
	}
	return records, errors.Join(errs...)
}

// readRecord reads one layout.
func readRecord(path string) (*layout.Record, *source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	s := &source{name: filepath.Base(path)}
	var f recordFile
	if err := files.DecodeYAML(bytes.NewReader(text), &f); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", s.name, err)
	}
	if s.root, err = files.YAMLDocument(bytes.NewReader(text)); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", s.name, err)
	}
	s.checkName(s.root, "layout", f.Layout)
	if f.Text == "" {
		s.errorf(s.root.Line, "layout %s has no description", f.Layout)
	}
	if f.Bytes == 0 || f.Bytes%(wordBits/8) != 0 || f.Bytes > maxRecord {
		s.errorf(lineOf(s.root, "bytes"), "bytes is %d: use a multiple of 8 up to %d", f.Bytes, maxRecord)
	}
	r := &layout.Record{Name: f.Layout, Bytes: f.Bytes, Text: oneLine(f.Text)}
	used, names := words{}, map[string]bool{}
	for i := range f.Words {
		n := item(s.root, "words", i)
		w := s.word(n, &f.Words[i])
		s.checkWord(n, r, &w, used)
		s.checkFieldNames(n, r, &w, names)
		r.Words = append(r.Words, w)
	}
	if len(r.Words) == 0 {
		s.errorf(s.root.Line, "layout %s has no words", r.Name)
	}
	return r, s, errors.Join(s.errs...)
}

// word converts a word of the file. One without fields is one field of all its bits.
func (s *source) word(n *yaml.Node, f *wordFile) layout.Register {
	r := registerFile{Name: f.Name, Offset: f.Offset, Bits: wordBits, Unit: f.Unit, Text: f.Text}
	for _, x := range f.Fields {
		r.Fields = append(r.Fields, fieldFile{Name: x.Name, LSB: x.LSB, Bits: x.Bits, Access: layout.RW.String(), Unit: x.Unit, Text: x.Text})
	}
	if len(f.Fields) == 0 {
		r.Access = layout.RW.String()
	}
	w := s.register(n, &r)
	for i, x := range f.Fields {
		s.values(item(n, "fields", i), &w.Fields[i], x.Values)
	}
	return w
}

// values converts and checks the named values of a field.
func (s *source) values(n *yaml.Node, field *layout.Field, values []valueFile) {
	names, numbers := map[string]bool{}, map[uint64]string{}
	for i, v := range values {
		at := item(n, "values", i)
		s.checkName(at, "name", v.Name)
		other, taken := numbers[v.Value]
		switch {
		case names[v.Name]:
			s.errorf(lineOf(at, "name"), "a value %s of field %s exists already: choose another name", v.Name, field.Name)
		case taken:
			s.errorf(lineOf(at, "value"), "%s of field %s has the value %d of %s: choose another number", v.Name, field.Name, v.Value, other)
		case field.Bits < 64 && v.Value>>field.Bits != 0:
			s.errorf(lineOf(at, "value"), "the value %#x of %s does not fit the %d bits of field %s", v.Value, v.Name, field.Bits, field.Name)
		}
		names[v.Name], numbers[v.Value] = true, v.Name
		field.Values = append(field.Values, layout.Value{Name: v.Name, Value: v.Value})
	}
}

// checkWord checks the place of a word.
func (s *source) checkWord(n *yaml.Node, r *layout.Record, w *layout.Register, used words) {
	switch {
	case w.Offset%(wordBits/8) != 0:
		s.errorf(lineOf(n, "offset"), "offset %#x of word %s is not aligned: use a multiple of 8", w.Offset, w.Name)
		return
	case w.Offset >= r.Bytes || r.Bytes-w.Offset < wordBits/8:
		s.errorf(lineOf(n, "offset"), "word %s ends at %#x, layout %s at %#x: move it, or raise bytes", w.Name, w.Offset+wordBits/8, r.Name, r.Bytes)
		return
	}
	if other := used.add(w); other != "" {
		s.errorf(lineOf(n, "offset"), "word %s overlaps word %s: move one of them", w.Name, other)
	}
}

// checkFieldNames has the names of fields differ in a record, because accessors have them.
func (s *source) checkFieldNames(n *yaml.Node, r *layout.Record, w *layout.Register, names map[string]bool) {
	for i := range w.Fields {
		at := n
		if !w.Single() {
			at = item(n, "fields", i)
		}
		if names[w.Fields[i].Name] {
			s.errorf(lineOf(at, "name"), "a field %s exists already in layout %s: choose another name", w.Fields[i].Name, r.Name)
		}
		names[w.Fields[i].Name] = true
	}
}
