// SPDX-License-Identifier: Apache-2.0

package vmm

// Store is the remote side: it keeps pages by number. A page has PageSize bytes.
//
// Both methods start requests and return without waiting; the store calls Done of each request
// exactly once, from any goroutine, possibly before the method returns. Requests may complete in
// any order. Data belongs to the store until then. A store is used by several goroutines.
//
// A page is read only after a WRITE of it has completed, and never while another request of the
// same page is outstanding.
type Store interface {
	// ReadPages fills Data of each request with the page. The first request is the most urgent.
	ReadPages(list []Request)
	// WritePages stores Data of each request as the content of the page.
	WritePages(list []Request)
}

// Request is one page that is read or written.
type Request struct {
	Page int64  // number of the page, from 0
	Data []byte // PageSize bytes
	Done func(error)
}

// Allocator is implemented by a store that reads and writes memory of its own best, for example
// memory that is registered with a NIC. Data of every request is then a part of one allocation.
type Allocator interface {
	// AllocBuffers returns n bytes that begin at a multiple of PageSize.
	AllocBuffers(n int) ([]byte, error)
}
