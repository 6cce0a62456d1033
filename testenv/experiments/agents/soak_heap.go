// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// heapReader reads from the memory of processes of one binary what the latest garbage collection has found in use.
// Unlike the resident memory this has no garbage in it. The conditions of counter hold.
type heapReader struct {
	at int64 // address of runtime.gcController.heapMarked, 64 bits
}

func newHeapReader(bin string) (r heapReader, err error) {
	f, err := elf.Open(bin)
	if err != nil {
		return r, err
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		return r, fmt.Errorf("%s: %w", bin, err)
	}
	var controller int64
	for _, s := range symbols {
		if s.Name == "runtime.gcController" {
			controller = int64(s.Value)
		}
	}
	d, err := f.DWARF()
	if err != nil {
		return r, fmt.Errorf("%s: %w", bin, err)
	}
	offset, err := offsetOf(d, "runtime.gcControllerState", "heapMarked")
	if err != nil || controller == 0 {
		return r, errors.Join(fmt.Errorf("%s: no runtime.gcController", bin), err)
	}
	return heapReader{controller + offset}, nil
}

// marked returns the bytes in KiB.
func (r heapReader) marked(pid int) (int, error) {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return 0, err
	}
	defer mem.Close()
	var b [8]byte
	if _, err := mem.ReadAt(b[:], r.at); err != nil {
		return 0, fmt.Errorf("process %d: %w", pid, err)
	}
	return int(binary.NativeEndian.Uint64(b[:]) >> 10), nil
}
