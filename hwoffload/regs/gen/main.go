// SPDX-License-Identifier: Apache-2.0

// Gen generates from the definition of the card's registers what programs and people read: Go
// accessors, a SystemVerilog package and a reference page. Internal to this project.
// `go generate ./hwoffload/...` runs it.
//
// The definition is one YAML file for each block. Gen refuses what contradicts itself, and its
// errors name file and line: overlap, misalignment, bits outside of a register, a reset value that
// does not fit, a name that exists twice. A block with the key struct has the members of a C
// structure as registers, so that the destination table of the card is that of bpf/lib/abi.h.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/hwoffload/regs/layout"
)

// portBps is the rate of a port of the card (S2.1), bits per second.
const portBps = 100e9

func main() {
	root := filepath.Join("..", "..") // of hwoffload/regs, where go generate runs
	if err := run(root); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run writes all generated files of the tree at root.
func run(root string) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	for path, text := range files {
		if err := os.WriteFile(filepath.Join(root, path), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the generated files by their path in the tree.
func generate(root string) (map[string][]byte, error) {
	blocks, err := read(root)
	if err != nil {
		return nil, err
	}
	records, err := readRecords(filepath.Join(root, "hwoffload", "regs", "queue"))
	if err != nil {
		return nil, err
	}
	shared := slices.DeleteFunc(slices.Clone(records), cardOnly)
	layouts, err := goRecords(wqeHead, shared)
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(slices.Clone(records), func(r layout.Record) bool { return !cardOnly(r) })
	ownLayouts, err := goRecords(goHead, own)
	if err != nil {
		return nil, err
	}
	accessors, err := goAccessors(blocks)
	if err != nil {
		return nil, err
	}
	table, err := goTable(blocks)
	if err != nil {
		return nil, err
	}
	decode, err := svDecode(blocks)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"hwoffload/regs/accessors_gen.go":    accessors,
		"hwoffload/regs/blocks_gen.go":       table,
		"hwoffload/regs/layouts_gen.go":      ownLayouts,
		"rocev2/wqe/layouts_gen.go":          layouts,
		"hwoffload/rtl/softroce_regs_pkg.sv": svPackage(blocks, records),
		"hwoffload/rtl/softroce_decode.sv":   decode,
		"docs/card/card-registers.md":        page(blocks, records),
	}, nil
}

// read reads the definition.
func read(root string) ([]layout.Block, error) {
	lib := filepath.Join(root, "bpf", "lib")
	structs, err := readStructs(filepath.Join(lib, "policy.h"), filepath.Join(lib, "abi.h"))
	if err != nil {
		return nil, err
	}
	structs.Resets["policy_params"] = paramResets()
	return readBlocks(filepath.Join(root, "hwoffload", "regs"), structs)
}

// paramResets are the default parameters of the policy by their offset, which is the same in
// Go and in C (TestLayoutMatchesHeader of cc/fourcase).
func paramResets() map[uint64]uint64 {
	resets := map[uint64]uint64{}
	v := reflect.ValueOf(fourcase.DefaultParams(portBps))
	for i := range v.NumField() {
		resets[uint64(v.Type().Field(i).Offset)] = v.Field(i).Uint()
	}
	return resets
}
