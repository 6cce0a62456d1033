// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/regs/layout"
)

const recordHead = "layout: l\nbytes: 16\ndescription: d\nwords:\n"

// readLayouts reads a folder with these files.
func readLayouts(t *testing.T, files map[string]string) ([]layout.Record, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return readRecords(dir)
}

func TestReadRecords(t *testing.T) {
	text := recordHead + "  - {name: a, offset: 0, description: d}\n" +
		"  - name: b\n    offset: 8\n    fields:\n" +
		"      - {name: c, lsb: 4, bits: 8, unit: bytes, description: d}\n" +
		"      - name: e\n        lsb: 60\n        bits: 4\n        description: d\n        values:\n          - {name: one, value: 1}\n          - {name: last, value: 15}\n"
	all, err := readLayouts(t, map[string]string{"l.yaml": text})
	if err != nil {
		t.Fatal(err)
	}
	r := all[0]
	if len(all) != 1 || r.Name != "l" || r.Bytes != 16 || len(r.Words) != 2 || !r.Words[0].Single() || r.Words[0].Bits != 64 {
		t.Fatalf("%+v", all)
	}
	c, e := r.Words[1].Fields[0], r.Words[1].Fields[1]
	if c.Mask() != 0xff0 || c.Unit != "bytes" || e.Mask() != 0xf<<60 || len(e.Values) != 2 || e.Values[1] != (layout.Value{Name: "last", Value: 15}) {
		t.Errorf("%+v %+v", c, e)
	}
}

// Every mistake in a layout is an error with file and line.
func TestRecordMistakes(t *testing.T) {
	word := "  - {name: a, offset: 0, description: d}\n"
	field := func(lines string) string { return recordHead + "  - name: b\n    offset: 8\n    fields:\n" + lines }
	for name, c := range map[string]struct {
		text, want string
	}{
		"overlap":         {recordHead + word + "  - {name: b, offset: 0, description: d}\n", "l.yaml: line 6: word b overlaps word a"},
		"misaligned":      {recordHead + "  - {name: a, offset: 4, description: d}\n", "l.yaml: line 5: offset 0x4 of word a is not aligned: use a multiple of 8"},
		"outside":         {recordHead + "  - {name: a, offset: 16, description: d}\n", "l.yaml: line 5: word a ends at 0x18, layout l at 0x10"},
		"far outside":     {recordHead + "  - {name: a, offset: 0xfffffffffffffff8, description: d}\n", "l.yaml: line 5: word a ends at"},
		"no words":        {strings.TrimSuffix(recordHead, "words:\n"), "l.yaml: line 1: layout l has no words"},
		"length":          {strings.Replace(recordHead, "16", "12", 1) + word, "l.yaml: line 2: bytes is 12: use a multiple of 8"},
		"no description":  {strings.Replace(recordHead, "description: d\n", "", 1) + word, "l.yaml: line 1: layout l has no description"},
		"name":            {strings.Replace(recordHead, "layout: l", "layout: L", 1) + word, `l.yaml: line 1: layout "L": use small letters`},
		"unknown key":     {recordHead + "  - {name: a, offset: 0, access: RW, description: d}\n", `l.yaml: line 5: there is no key "access"`},
		"field twice":     {recordHead + word + "  - name: b\n    offset: 8\n    fields:\n      - {name: a, lsb: 0, bits: 1, description: d}\n", "l.yaml: line 9: a field a exists already in layout l"},
		"bits outside":    {field("      - {name: f, lsb: 60, bits: 5, description: d}\n"), "l.yaml: line 8: f has 5 bits from bit 60 on"},
		"fields overlap":  {field("      - {name: f, lsb: 0, bits: 5, description: d}\n      - {name: g, lsb: 4, bits: 5, description: d}\n"), "l.yaml: line 9: field g overlaps another field"},
		"value too large": {field("      - name: f\n        lsb: 0\n        bits: 2\n        description: d\n        values:\n          - {name: x, value: 4}\n"), "l.yaml: line 13: the value 0x4 of x does not fit the 2 bits"},
		"value twice":     {field("      - name: f\n        lsb: 0\n        bits: 2\n        description: d\n        values:\n          - {name: x, value: 1}\n          - {name: y, value: 1}\n"), "l.yaml: line 14: y of field f has the value 1 of x"},
		"value's name":    {field("      - name: f\n        lsb: 0\n        bits: 2\n        description: d\n        values:\n          - {name: x, value: 1}\n          - {name: x, value: 2}\n"), "l.yaml: line 14: a value x of field f exists already"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readLayouts(t, map[string]string{"l.yaml": c.text}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v\nwant %s", err, c.want)
			}
		})
	}
	if _, err := readLayouts(t, map[string]string{"a.yaml": recordHead + word, "l.yaml": recordHead + word}); err == nil || !strings.Contains(err.Error(), "l.yaml: line 1: a layout l exists already in a.yaml") {
		t.Errorf("%v", err)
	}
	if _, err := readLayouts(t, nil); err == nil || !strings.Contains(err.Error(), "there is no file *.yaml") {
		t.Errorf("%v", err)
	}
}
