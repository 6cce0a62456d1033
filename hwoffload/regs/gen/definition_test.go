// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/regs/layout"
)

// ident is a block with a list of blocks.
const ident = `block: ident
type: 1
version: 1
base: 0x0
stride: 0x1000
description: d
registers:
  - {name: list_start, offset: 0x00, access: RO, description: d}
  - {name: list_type, offset: 0x20, stride: 0x20, count: 2, access: RO, description: d}
  - {name: list_version, offset: 0x24, stride: 0x20, count: 2, access: RO, description: d}
  - {name: list_next, offset: 0x28, stride: 0x20, count: 2, access: RO, description: d}
  - {name: list_base, offset: 0x2c, stride: 0x20, count: 2, access: RO, description: d}
  - {name: list_stride, offset: 0x30, stride: 0x20, count: 2, access: RO, description: d}
  - {name: list_count, offset: 0x34, stride: 0x20, count: 2, access: RO, description: d}
`

// head is the first six lines of a block; its registers follow.
const head = `block: b
type: 2
version: 1
base: 0x1000
stride: 0x100
description: d
registers:
`

const header = `
#define N 2
struct inner {
	__u32 a;  /* first */
	__u32 b;
};

struct outer {
	/* heading */
	__u64 x_ns;          /* a time */
	__s64 y;
	__u8 c;
	__u8 reserved0;
	__u16 d;
	__u32 e;
	struct inner flows[N];
	__u8 reserved1[8];
	struct inner one;
};
`

// readFiles reads a definition of these files.
func readFiles(t *testing.T, files map[string]string) ([]layout.Block, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	structs, err := readStructs(filepath.Join(dir, "x.h"))
	if err != nil {
		t.Fatal(err)
	}
	return readBlocks(dir, structs)
}

func withBlock(text string) map[string]string {
	return map[string]string{"ident.yaml": ident, "b.yaml": text, "x.h": header}
}

func TestRead(t *testing.T) {
	blocks, err := readFiles(t, withBlock(head+`  - name: r
    offset: 0x8
    bits: 64
    stride: 8
    count: 3
    description: >
      several
      lines
    fields:
      - {name: lo, lsb: 0, bits: 4, access: RW, reset: 0xf, unit: ns, description: low}
      - {name: hi, lsb: 60, bits: 4, access: RW1C, reset: 1, description: high}
  - {name: s, offset: 0x4, access: RO, reset: 7, description: single}
`))
	if err != nil {
		t.Fatal(err)
	}
	b := blocks[1]
	r := b.Registers[0]
	if b.Name != "b" || b.Count != 1 || b.Base != 0x1000 || r.Text != "several lines" || r.Count != 3 || r.Single() || r.Reset(2) != 1<<60|15 || r.Mask(layout.RW) != 15 || r.Mask(layout.RW1C) != 15<<60 {
		t.Errorf("%+v", b)
	}
	if s := b.Registers[1]; !s.Single() || s.Bits != 32 || s.Reset(0) != 7 || b.Address(0, &s, 0) != 0x1004 {
		t.Errorf("%+v", s)
	}
	// The list leads from ident to b.
	id := blocks[0].Registers
	for i, want := range [][]uint64{{0x20}, {1, 2}, {1, 1}, {0x40, 0}, {0, 0x1000}, {0x1000, 0x100}, {1, 1}} {
		for j, v := range want {
			if got := id[i].Reset(uint64(j)); got != v {
				t.Errorf("%s[%d] is %#x, want %#x", id[i].Name, j, got, v)
			}
		}
	}
}

func TestStruct(t *testing.T) {
	blocks, err := readFiles(t, withBlock("block: b\ntype: 2\nversion: 1\nbase: 0x1000\nstride: 64\ncount: 4\ndescription: d\nstruct: outer\naccess: RW\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, r := range blocks[1].Registers {
		got += r.Name
		for _, f := range r.Fields {
			if f.Signed {
				got += " signed"
			}
			if !r.Single() {
				got += " " + f.Name
			}
		}
		got += "\n"
	}
	if want := "x_ns\ny signed\nc_word c d\ne\nflows_a\nflows_b\none_a\none_b\n"; got != want {
		t.Errorf("registers\n%swant\n%s", got, want)
	}
	for i, want := range []uint64{0, 8, 16, 20, 24, 28, 48, 52} {
		if r := blocks[1].Registers[i]; r.Offset != want {
			t.Errorf("%s is at %d, want %d", r.Name, r.Offset, want)
		}
	}
	r := blocks[1].Registers
	if r[0].Fields[0].Unit != "ns" || r[0].Fields[0].Text != "a time" || r[2].Fields[1].LSB != 16 || r[4].Count != 2 || r[4].Stride != 8 {
		t.Errorf("%+v", r)
	}
}

// Every mistake is an error with file and line.
func TestMistakes(t *testing.T) {
	line := func(registers string) map[string]string { return withBlock(head + registers) }
	reg := "  - {name: r, offset: 0x8, access: RW, description: d}\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"overlap", line(reg + "  - {name: s, offset: 0x8, access: RW, description: d}\n"), "b.yaml: line 9: register s overlaps register r"},
		{"overlap of a half", line(reg + "  - {name: s, offset: 0x8, bits: 64, access: RW, description: d}\n"), "b.yaml: line 9: register s overlaps register r"},
		{"overlap of an array", line("  - {name: a, offset: 0x0, stride: 8, count: 4, access: RW, description: d}\n" + reg), "b.yaml: line 9: register r overlaps register a"},
		{"overlap of itself", line("  - {name: a, offset: 0x0, bits: 64, stride: 4, count: 4, access: RW, description: d}\n"), "b.yaml: line 8: stride 4 of register a: use a multiple of 8"},
		{"misaligned", line("  - {name: r, offset: 0x4, bits: 64, access: RW, description: d}\n"), "b.yaml: line 8: offset 0x4 of register r is not aligned: use a multiple of 8"},
		{"outside", line("  - {name: r, offset: 0xfc, bits: 64, access: RW, description: d}\n"), "b.yaml: line 8"},
		{"last element outside", line("  - {name: r, offset: 0xf8, stride: 4, count: 3, access: RW, description: d}\n"), "b.yaml: line 8: register r ends at 0x104, an element of block b at 0x100"},
		{"reset too large", line("  - name: r\n    offset: 0x8\n    description: d\n    fields:\n      - name: f\n        lsb: 1\n        bits: 3\n        access: RW\n        description: d\n        reset: 8\n"), "b.yaml: line 17: the reset value 0x8 of f does not fit 3 bits: the largest is 0x7"},
		{"reset of a command", line("  - {name: r, offset: 0x8, access: WO, reset: 1, description: d}\n"), "b.yaml: line 8: r is WO and reads 0"},
		{"bits outside", line("  - name: r\n    offset: 0x8\n    description: d\n    fields:\n      - {name: f, lsb: 30, bits: 3, access: RW, description: d}\n"), "b.yaml: line 12: f has 3 bits from bit 30 on, register r has bits 0 to 31"},
		{"no bits", line("  - name: r\n    offset: 0x8\n    description: d\n    fields:\n      - {name: f, lsb: 30, access: RW, description: d}\n"), "b.yaml: line 12: f has 0 bits"},
		{"fields overlap", line("  - name: r\n    offset: 0x8\n    description: d\n    fields:\n      - {name: f, lsb: 0, bits: 3, access: RW, description: d}\n      - {name: g, lsb: 2, bits: 3, access: RW, description: d}\n"), "b.yaml: line 13: field g overlaps"},
		{"field twice", line("  - name: r\n    offset: 0x8\n    description: d\n    fields:\n      - {name: f, lsb: 0, bits: 1, access: RW, description: d}\n      - {name: f, lsb: 2, bits: 3, access: RW, description: d}\n"), "b.yaml: line 13: a field f exists already"},
		{"register twice", line(reg + "  - {name: r, offset: 0xc, access: RW, description: d}\n"), "b.yaml: line 9: a register r exists already in block b"},
		{"width", line("  - {name: r, offset: 0x8, bits: 16, access: RW, description: d}\n"), "b.yaml: line 8: register r has 16 bits: use 32 or 64"},
		{"access", line("  - {name: r, offset: 0x8, access: rw, description: d}\n"), `b.yaml: line 8: r: unknown access "rw": use RO, RW, WO or RW1C`},
		{"access of a register with fields", line("  - name: r\n    offset: 0x8\n    access: RW\n    description: d\n    fields:\n      - {name: f, lsb: 0, bits: 1, access: RW, description: d}\n"), "b.yaml: line 10: register r has fields: give access to them"},
		{"name", line("  - {name: Reg, offset: 0x8, access: RW, description: d}\n"), `b.yaml: line 8: name "Reg": use small letters`},
		{"no description", line("  - {name: r, offset: 0x8, access: RW}\n"), "b.yaml: line 8: r has no description"},
		{"negative", line("  - {name: r, offset: -8, access: RW, description: d}\n"), "b.yaml: line 8"},
		{"unknown key", line("  - {name: r, offst: 8, access: RW, description: d}\n"), `b.yaml: line 8: there is no key "offst": did you mean offset?`},
		{"key twice", line("  - {name: r, offset: 8, offset: 8, access: RW, description: d}\n"), "b.yaml: line 8: offset stands in line 8 already"},
		{"no registers", withBlock(strings.TrimSuffix(head, "registers:\n")), "b.yaml: line 1: block b has no registers"},
		{"block base", withBlock(strings.Replace(head, "0x1000", "0x1004", 1) + reg), "b.yaml: line 4: base 0x1004 is not aligned"},
		{"block stride", withBlock(strings.Replace(head, "0x100\n", "0x101\n", 1) + reg), "b.yaml: line 5: stride is 257"},
		{"block too long", withBlock(strings.Replace(head, "0x1000", "0xffff000", 1) + "  - {name: r, offset: 0, access: RW, description: d}\ncount: 65535\n"), "b.yaml: line 4: block b ends at"},
		{"block count", withBlock(head + reg + "count: 65537\n"), "b.yaml: line 9: count is 65537"},
		{"blocks overlap", withBlock(strings.Replace(head, "0x1000", "0x0", 1) + reg), "line 4: block "},
		{"block type twice", withBlock(strings.Replace(head, "type: 2", "type: 1", 1) + reg), "ident.yaml: line 2: block b of b.yaml has type 1 already"},
		{"block name twice", withBlock(strings.Replace(head, "block: b", "block: ident", 1) + reg), "line 1: a block ident exists already in b.yaml"},
		{"structure unknown", withBlock(strings.Replace(head, "registers:\n", "struct: none\naccess: RW\n", 1)), "b.yaml: line 7: there is no struct none in the headers"},
		{"structure too large", withBlock(strings.Replace(strings.Replace(head, "0x100\n", "32\n", 1), "registers:\n", "struct: outer\naccess: RW\n", 1)), "b.yaml: line 7: struct outer has 56 bytes, an element of block b 32"},
		{"register over a member", withBlock(strings.Replace(head, "registers:\n", "struct: outer\naccess: RW\nregisters:\n", 1) + reg), "b.yaml: line 10: register r overlaps register y"},
		{"no block ident", map[string]string{"b.yaml": head + reg, "x.h": header}, "there is no block ident at address 0"},
		{"list too short", map[string]string{"ident.yaml": ident, "b.yaml": head + reg, "c.yaml": strings.NewReplacer("block: b", "block: c", "type: 2", "type: 3", "0x1000", "0x2000").Replace(head) + reg, "x.h": header}, "has 2 elements for 3 blocks: raise its count"},
		{"empty", map[string]string{"x.h": header}, "there is no file *.yaml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := readFiles(t, c.files); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestHeaderMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"\nstruct a {\n\t__u32 x, y;\n};\n":       `struct a: cannot read "\t__u32 x, y;"`,
		"\nstruct a {\n\t__u32 x[SIZE];\n};\n":    "the array length SIZE of x is neither a number nor a macro",
		"\nstruct a {\n\tunsigned int x : 3;\n};": "struct a: cannot read",
	} {
		path := filepath.Join(t.TempDir(), "x.h")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readStructs(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
