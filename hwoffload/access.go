// SPDX-License-Identifier: Apache-2.0

package hwoffload

import (
	"fmt"
	"sync/atomic"
)

// Fault keeps the first failure of a Device. The zero value has none.
type Fault struct{ first atomic.Pointer[error] }

// Set stores the first failure.
func (f *Fault) Set(err error) { f.first.CompareAndSwap(nil, &err) }

// Err returns the first failure, or nil.
func (f *Fault) Err() error {
	if err := f.first.Load(); err != nil {
		return *err
	}
	return nil
}

// Check reports whether an access of width bytes to an address space of size bytes is
// possible, and stores the failure if it is not. After a failure no access is.
func (f *Fault) Check(addr, width, size uint64) bool {
	switch {
	case f.first.Load() != nil:
		return false
	case addr%width != 0:
		f.Set(fmt.Errorf("access of %d bits at %#x: the address is no multiple of %d", width*8, addr, width))
		return false
	case addr > size || size-addr < width:
		f.Set(fmt.Errorf("access of %d bits at %#x: the address space ends at %#x", width*8, addr, size))
		return false
	}
	return true
}
