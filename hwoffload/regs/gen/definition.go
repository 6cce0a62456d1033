// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/softroce/softroce-xdp/hwoffload/regs/layout"
)

// registerSpace is the length of the address range of registers in bytes. The DDR window
// (S2.5) begins behind it.
const registerSpace = 1 << 28

// readBlocks reads all YAML files of a folder. The blocks are in the order of their addresses.
func readBlocks(dir string, structs cStructs) ([]layout.Block, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: there is no file *.yaml", dir)
	}
	var blocks []layout.Block
	var errs []error
	from := map[string]*source{} // by the name of the block
	for _, path := range paths {
		b, s, err := readBlock(path, structs)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.checkAgainst(b, blocks, from)
		errs = append(errs, s.errs...)
		from[b.Name] = s
		blocks = append(blocks, *b)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	slices.SortFunc(blocks, func(a, b layout.Block) int { return cmp.Compare(a.Base, b.Base) })
	return blocks, link(blocks)
}

// checkAgainst compares a block with those read before.
func (s *source) checkAgainst(b *layout.Block, others []layout.Block, from map[string]*source) {
	for i := range others {
		o := &others[i]
		file := from[o.Name].name
		if b.Name == o.Name {
			s.errorf(lineOf(s.root, "block"), "a block %s exists already in %s: choose another name", b.Name, file)
		}
		if b.Type == o.Type {
			s.errorf(lineOf(s.root, "type"), "block %s of %s has type %d already: choose another number", o.Name, file, b.Type)
		}
		if b.Base < o.Base+o.Size() && o.Base < b.Base+b.Size() {
			s.errorf(lineOf(s.root, "base"), "block %s (%#x to %#x) overlaps block %s of %s (%#x to %#x): move one of them",
				b.Name, b.Base, b.Base+b.Size()-1, o.Name, file, o.Base, o.Base+o.Size()-1)
		}
	}
}

// link fills the list of blocks in the block ident: the reset values of its registers list_….
func link(blocks []layout.Block) error {
	i := slices.IndexFunc(blocks, func(b layout.Block) bool { return b.Name == "ident" })
	if i < 0 || blocks[i].Base != 0 {
		return errors.New("there is no block ident at address 0: a driver reads it first")
	}
	ident := &blocks[i]
	find := func(name string) *layout.Register {
		for i := range ident.Registers {
			if ident.Registers[i].Name == name {
				return &ident.Registers[i]
			}
		}
		return nil
	}
	first := find("list_type")
	values := map[string]func(i int, b *layout.Block) uint64{
		"list_type":    func(_ int, b *layout.Block) uint64 { return b.Type },
		"list_version": func(_ int, b *layout.Block) uint64 { return b.Version },
		"list_base":    func(_ int, b *layout.Block) uint64 { return b.Base },
		"list_stride":  func(_ int, b *layout.Block) uint64 { return b.Stride },
		"list_count":   func(_ int, b *layout.Block) uint64 { return b.Count },
		"list_next": func(i int, _ *layout.Block) uint64 {
			if i == len(blocks)-1 {
				return 0
			}
			return ident.Address(0, first, uint64(i)+1)
		},
	}
	for name, value := range values {
		r := find(name)
		if r == nil {
			return fmt.Errorf("block ident has no register %s, which the list of blocks needs", name)
		}
		if r.Count < uint64(len(blocks)) {
			return fmt.Errorf("register %s of block ident has %d elements for %d blocks: raise its count", name, r.Count, len(blocks))
		}
		r.Resets = make([]uint64, r.Count)
		for i := range blocks {
			r.Resets[i] = value(i, &blocks[i])
		}
	}
	start := find("list_start")
	if start == nil {
		return errors.New("block ident has no register list_start, which the list of blocks needs")
	}
	start.Resets = []uint64{ident.Address(0, first, 0)}
	return nil
}
