// SPDX-License-Identifier: Apache-2.0

package vmm

import (
	"runtime/debug"
	"sync"
)

// Try calls f and returns a *PageError if f accessed a page of a map that cannot be had. f is left
// at the access; its deferred calls run. Any other panic of f goes on. The error covers accesses of
// the goroutine that calls Try, not of goroutines that f starts.
//
// Without Try, such an access ends the program (SIGBUS, or SIGSEGV after Close). A system call
// that is given memory of a lost page fails with EFAULT.
func Try(f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			if err = maps.explain(r); err == nil {
				panic(r)
			}
		}
	}()
	f()
	return nil
}

// registry knows all maps, also closed ones: their addresses are never used again.
type registry struct {
	mu   sync.Mutex
	list []*Map
}

var maps registry

func (r *registry) add(m *Map) {
	r.mu.Lock()
	r.list = append(r.list, m)
	r.mu.Unlock()
}

// explain returns the error of a panic that an access to a map has caused, or nil.
func (r *registry) explain(panicked any) error {
	fault, ok := panicked.(interface{ Addr() uintptr }) // see debug.SetPanicOnFault
	if !ok {
		return nil
	}
	at := uint64(fault.Addr())
	r.mu.Lock()
	var found *Map
	for _, m := range r.list {
		if start := addressOf(m.bytes); at >= start && at-start < uint64(m.size) {
			found = m
		}
	}
	r.mu.Unlock()
	if found == nil {
		return nil
	}
	page := int64(at-addressOf(found.bytes)) / PageSize
	return &PageError{Offset: page * PageSize, Err: found.cause(page)}
}
