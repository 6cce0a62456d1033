// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Allocator is an optional interface of a device in another process: memory of Alloc is accessed
// without a copy by that process.
type Allocator interface {
	// Alloc returns n bytes of zeroed memory for RegMR.
	Alloc(n int) ([]byte, error)
	// Free gives memory back. Until then it can be accessed, also after Close of the device. It refuses
	// memory that was freed before, parts of it, and registered memory.
	Free(b []byte) error
}

// Alloc returns n bytes of memory that the device accesses in the fastest way, for Register. Free
// gives it back; memory that is never freed lives as long as the program. The error wraps verbs.ErrRange if n
// is less than 1.
func Alloc(dev verbs.Device, n int) ([]byte, error) {
	if n < 1 {
		return nil, fmt.Errorf("alloc: %w: %d bytes", verbs.ErrRange, n)
	}
	if a, ok := dev.(Allocator); ok {
		return a.Alloc(n)
	}
	return make([]byte, n), nil
}

// Free gives back memory of Alloc, as a whole, which nobody uses any more. A device in another process returns
// an error and frees nothing if the memory was freed before, if b is a part of it, or while a region of it is
// registered.
func Free(dev verbs.Device, b []byte) error {
	if a, ok := dev.(Allocator); ok {
		return a.Free(b)
	}
	return nil
}

// buffers is registered memory of a connection. Its bytes are accessed between enter and leave, or between
// acquire and release.
type buffers struct {
	mu    sync.RWMutex
	ended bool
	mem   []byte       // nil: not made yet, or freed
	mr    verbs.MR     // nil: not made yet, or deregistered
	users atomic.Int32 // acquire without release
	made  atomic.Bool  // make has returned without an error
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

// acquire is enter for an access of the application, which takes as long as it likes: free does not wait for it,
// and leaves the memory to the last release. False: the connection was closed.
func (b *buffers) acquire() bool {
	if !b.enter() {
		return false
	}
	b.users.Add(1)
	b.leave()
	return true
}

// release ends acquire, and gives the memory back if it was the last user and free was called.
func (b *buffers) release(dev verbs.Device) error {
	if b.users.Add(-1) > 0 {
		return nil
	}
	if b.enter() {
		b.leave()
		return nil
	}
	b.mu.Lock()
	var mem []byte
	if b.users.Load() == 0 { // otherwise free was called since, and is a user
		mem, b.mem = b.mem, nil
	}
	b.mu.Unlock()
	if mem == nil {
		return nil
	}
	return Free(dev, mem)
}

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
	b.made.Store(true)
	return nil
}

// use is make with memory that is registered already.
func (b *buffers) use(mem []byte, mr verbs.MR) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mem, b.mr = mem, mr
	b.made.Store(true)
}

// free waits until nobody accesses the memory between enter and leave, deregisters it, and gives it back, or has
// the last release do so.
func (b *buffers) free(dev verbs.Device) error {
	mr := b.end()
	if mr == nil {
		return nil
	}
	return oneEnd(mr.Deregister(), b.release(dev))
}

// end ends the access to the memory, and returns its region, nil if there is none. The caller deregisters it, and
// is a user until then: enter does not wait for the device, and no release frees memory that is registered.
func (b *buffers) end() verbs.MR {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	mr := b.mr
	if mr != nil {
		b.mr = nil
		b.users.Add(1)
	}
	return mr
}
