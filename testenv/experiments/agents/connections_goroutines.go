// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// counter counts the goroutines of processes of one binary, by the list runtime.allgs in their memory. The agent
// prints no such number. The binary needs its symbols and DWARF, and a fixed address: a build without -s, -w and
// -buildmode=pie.
type counter struct {
	allgs  int64 // address of the slice
	status int64 // offset of atomicstatus in runtime.g
}

// States of runtime/runtime2.go: a goroutine that has ended is kept for a later one. The garbage collector adds
// scanBit to a state.
const (
	stateDead = 6
	scanBit   = 0x1000
)

// newCounter reads what it needs from a binary.
func newCounter(bin string) (c counter, err error) {
	f, err := elf.Open(bin)
	if err != nil {
		return c, err
	}
	defer f.Close()
	if f.Type != elf.ET_EXEC || f.Class != elf.ELFCLASS64 {
		return c, fmt.Errorf("%s: %v, %v: only 64-bit programs with a fixed address can be read", bin, f.Type, f.Class)
	}
	symbols, err := f.Symbols()
	if err != nil {
		return c, fmt.Errorf("%s: %w", bin, err)
	}
	for _, s := range symbols {
		if s.Name == "runtime.allgs" {
			c.allgs = int64(s.Value)
		}
	}
	d, err := f.DWARF()
	if err != nil {
		return c, fmt.Errorf("%s: %w", bin, err)
	}
	if c.status, err = offsetOf(d, "runtime.g", "atomicstatus"); err != nil || c.allgs == 0 {
		return c, errors.Join(fmt.Errorf("%s: no list of goroutines", bin), err)
	}
	return c, nil
}

// offsetOf finds a field of a struct of package runtime.
func offsetOf(d *dwarf.Data, structure, field string) (int64, error) {
	r := d.Reader()
	for {
		e, err := r.Next()
		if err != nil || e == nil {
			return 0, errors.Join(fmt.Errorf("no type %s", structure), err)
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		if e.Tag == dwarf.TagCompileUnit && name != "runtime" {
			r.SkipChildren()
		}
		if e.Tag != dwarf.TagStructType || name != structure {
			continue
		}
		t, err := d.Type(e.Offset)
		if err != nil {
			return 0, err
		}
		for _, f := range t.(*dwarf.StructType).Field {
			if f.Name == field {
				return f.ByteOffset, nil
			}
		}
		return 0, fmt.Errorf("%s has no field %s", structure, field)
	}
}

// count counts the goroutines of a process that have not ended, those of the runtime included.
func (c counter) count(pid int) (n int, err error) {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return 0, err
	}
	defer mem.Close()
	var header [16]byte // address and length of the slice
	if _, err := mem.ReadAt(header[:], c.allgs); err != nil {
		return 0, fmt.Errorf("process %d: %w", pid, err)
	}
	list := make([]byte, 8*binary.NativeEndian.Uint64(header[8:]))
	if _, err := mem.ReadAt(list, int64(binary.NativeEndian.Uint64(header[:]))); err != nil {
		return 0, fmt.Errorf("process %d: %w", pid, err)
	}
	for ; len(list) > 0; list = list[8:] {
		var state [4]byte
		if _, err := mem.ReadAt(state[:], int64(binary.NativeEndian.Uint64(list))+c.status); err != nil {
			return 0, fmt.Errorf("process %d: %w", pid, err)
		}
		if binary.NativeEndian.Uint32(state[:])&^scanBit != stateDead {
			n++
		}
	}
	return n, nil
}
