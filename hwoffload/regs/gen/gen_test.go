// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/regs/layout"
)

const root = "../../.."

// The committed files are those of the definition.
func TestGenerated(t *testing.T) {
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		got, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not as in the definition: run go generate ./hwoffload/...", path)
		}
	}
}

// The table that is compiled in equals the definition.
func TestBlocks(t *testing.T) {
	blocks, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(blocks) != len(regs.Blocks) {
		t.Fatalf("%d blocks in the definition, %d in package regs", len(blocks), len(regs.Blocks))
	}
	for i := range blocks {
		if len(blocks[i].Registers) != len(regs.Blocks[i].Registers) || blocks[i].Name != regs.Blocks[i].Name || blocks[i].Base != regs.Blocks[i].Base {
			t.Errorf("block %s differs from package regs", blocks[i].Name)
		}
	}
}

// bits are the bits of a structure that belong to fields of a block's element.
func bits(b *layout.Block, size uintptr) []bool {
	used := make([]bool, size*8)
	for i := range b.Registers {
		r := &b.Registers[i]
		for j := range r.Count {
			for k := range r.Fields {
				f := &r.Fields[k]
				start := (r.Offset+j*r.Stride)*8 + uint64(f.LSB)
				for bit := start; bit < start+uint64(f.Bits); bit++ {
					used[bit] = true
				}
			}
		}
	}
	return used
}

// members calls do for every integer of a structure that is not reserved.
func members(typ reflect.Type, at uintptr, do func(name string, typ reflect.Type, offset uintptr)) {
	switch typ.Kind() {
	case reflect.Struct:
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.Name == "_" || strings.HasPrefix(f.Name, "Reserved") {
				continue
			}
			if k := f.Type.Kind(); k == reflect.Struct || k == reflect.Array {
				members(f.Type, at+f.Offset, do)
				continue
			}
			do(f.Name, f.Type, at+f.Offset)
		}
	case reflect.Array:
		for i := range typ.Len() {
			members(typ.Elem(), at+uintptr(i)*typ.Elem().Size(), do)
		}
	}
}

func block(t *testing.T, name string) *layout.Block {
	t.Helper()
	for i := range regs.Blocks {
		if regs.Blocks[i].Name == name {
			return &regs.Blocks[i]
		}
	}
	t.Fatalf("no block %s", name)
	return nil
}

// Registers of a block that is a C structure are at the places of the Go type that bpf2go
// made of this structure: each member is a field of its size, and nothing else is a field.
func TestStructsAsInGo(t *testing.T) {
	for name, typ := range map[string]reflect.Type{
		"dest": reflect.TypeFor[bpf.DestRegs](), "fourcase": reflect.TypeFor[bpf.PolicyParams](),
	} {
		b := block(t, name)
		fields := map[uintptr]*layout.Field{} // by offset in the structure
		for i := range b.Registers {
			r := &b.Registers[i]
			for j := range r.Count {
				for k := range r.Fields {
					fields[uintptr(r.Offset+j*r.Stride)+uintptr(r.Fields[k].LSB)/8] = &r.Fields[k]
				}
			}
		}
		if b.Version != bpf.ABIVersion {
			t.Errorf("%s has version %d, its structure is of version %d: write that into the YAML file", b.Name, b.Version, bpf.ABIVersion)
		}
		left := bits(b, typ.Size())
		count := 0
		members(typ, 0, func(name string, typ reflect.Type, at uintptr) {
			count++
			f := fields[at]
			if f == nil || uintptr(f.Bits) != typ.Size()*8 || f.Signed != (typ.Kind() == reflect.Int64) || !strings.HasSuffix(camel(f.Name), name) {
				t.Errorf("%s: member %s (%s) at %d: the registers have %+v", b.Name, name, typ, at, f)
				return
			}
			for i := range typ.Size() * 8 {
				left[at*8+i] = false
			}
		})
		for i, used := range left {
			if used {
				t.Fatalf("%s: bit %d is a field, and no member of the structure", b.Name, i)
			}
		}
		if count != len(fields) || count < 20 {
			t.Errorf("%s: %d members, %d fields", b.Name, count, len(fields))
		}
	}
}

// Reset values of the policy's parameters are the defaults of the policy.
func TestParamResets(t *testing.T) {
	b := block(t, "fourcase")
	v := reflect.ValueOf(fourcase.DefaultParams(portBps))
	for i := range b.Registers {
		r := &b.Registers[i]
		if got, want := r.Reset(0), v.Field(i).Uint(); got != want || v.Type().Field(i).Offset != uintptr(r.Offset) {
			t.Errorf("%s is %d after reset, want %d", r.Name, got, want)
		}
	}
}

// No name exists twice in the SystemVerilog package.
func TestNamesAreUnique(t *testing.T) {
	const path, word = "hwoffload/rtl/softroce_regs_pkg.sv", 3
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.SplitSeq(string(text), "\n") {
		words := strings.Fields(line)
		if len(words) <= word+1 || words[0] != "localparam" {
			continue
		}
		if seen[words[word]] {
			t.Errorf("%s: %s exists twice", path, words[word])
		}
		seen[words[word]] = true
	}
	if len(seen) < 300 {
		t.Errorf("%s: only %d names found", path, len(seen))
	}
}
