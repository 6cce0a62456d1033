// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// arena is memory of this process as a Backend. Addresses are offsets.
type arena []byte

// newArena returns b as a backend. Its address must be a multiple of 8; mappings are.
func newArena(b []byte) (arena, error) {
	if addressOf(b)%8 != 0 {
		return nil, fmt.Errorf("arena: %w: its memory is not aligned to 8 bytes", verbs.ErrRange)
	}
	return arena(b), nil
}

func (a arena) piece(addr uint64, n int) ([]byte, error) {
	if size := uint64(len(a)); addr > size || uint64(n) > size-addr {
		return nil, errOutside
	}
	return a[addr : addr+uint64(n)], nil
}

var errOutside = fmt.Errorf("arena: %w: outside of it", verbs.ErrRange)

// ReadAt implements Backend.
func (a arena) ReadAt(dst []byte, addr uint64) error {
	p, err := a.piece(addr, len(dst))
	copy(dst, p)
	return err
}

// WriteAt implements Backend.
func (a arena) WriteAt(src []byte, addr uint64) error {
	p, err := a.piece(addr, len(src))
	copy(p, src)
	return err
}

// CompareSwap implements Backend.
func (a arena) CompareSwap(addr, compare, swap uint64) (uint64, error) {
	p, err := a.piece(addr, 8)
	if err != nil {
		return 0, err
	}
	return compareSwap(p, compare, swap), nil
}

// FetchAdd implements Backend.
func (a arena) FetchAdd(addr, add uint64) (uint64, error) {
	p, err := a.piece(addr, 8)
	if err != nil {
		return 0, err
	}
	return fetchAdd(p, add), nil
}
