// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"errors"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Allocator is an optional interface of a device in another process: memory of Alloc is accessed
// without a copy by that process.
type Allocator interface {
	// Alloc returns n bytes of zeroed memory for RegMR.
	Alloc(n int) ([]byte, error)
	// Free gives memory back. Until then it can be accessed, also after Close of the device.
	Free(b []byte) error
}

// Alloc returns n bytes of memory that the device accesses in the fastest way, for Register. Free
// gives it back; memory that is never freed lives as long as the program.
func Alloc(dev verbs.Device, n int) ([]byte, error) {
	if a, ok := dev.(Allocator); ok {
		return a.Alloc(n)
	}
	return make([]byte, n), nil
}

// Free gives back memory of Alloc. No region of it is registered any more, and nobody uses it.
func Free(dev verbs.Device, b []byte) error {
	if a, ok := dev.(Allocator); ok {
		return a.Free(b)
	}
	return nil
}

// buffers is registered memory of a connection. Its bytes are accessed between enter and leave.
type buffers struct {
	mu    sync.RWMutex
	ended bool
	mem   []byte
	mr    verbs.MR // nil: not made yet, or freed
}

// enter reports whether the memory may be accessed until leave. False: the connection was closed.
func (b *buffers) enter() bool {
	b.mu.RLock()
	if b.ended {
		b.mu.RUnlock()
		return false
	}
	return true
}

func (b *buffers) leave() { b.mu.RUnlock() }

// make allocates and registers the memory, once.
func (b *buffers) make(dev verbs.Device, pd verbs.PD, n int) error {
	b.mu.RLock()
	done := b.ended || b.mr != nil
	b.mu.RUnlock()
	if done {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || b.mr != nil {
		return nil
	}
	mem, err := Alloc(dev, n)
	if err != nil {
		return err
	}
	mr, err := pd.RegMR(mem, verbs.AccessLocalWrite)
	if err != nil {
		return errors.Join(err, Free(dev, mem))
	}
	b.mem, b.mr = mem, mr
	return nil
}

// free waits until nobody accesses the memory, and gives it back.
func (b *buffers) free(dev verbs.Device) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	if b.mr == nil {
		return nil
	}
	err := oneEnd(b.mr.Deregister(), Free(dev, b.mem))
	b.mr, b.mem = nil, nil
	return err
}
