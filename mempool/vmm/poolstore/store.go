// SPDX-License-Identifier: Apache-2.0

package poolstore

import (
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/pages"
	"github.com/softroce/softroce-xdp/mempool/vmm"
)

// Pages is what a Store is made of: a pages.Store, or a spread.Store for several servers.
type Pages interface {
	AllocBuffers(n int) ([]byte, error)
	ReadPages(list []pages.Request)
	WritePages(list []pages.Request)
}

// Store is a store of pages as one of package vmm.
type Store struct {
	pages Pages
	close func()
}

var (
	_ vmm.Store     = (*Store)(nil)
	_ vmm.Allocator = (*Store)(nil)
)

// New returns a store in the slabs of a node, which nothing else may use. demand is how many bytes
// the node wants in the pool at least; the store asks for more when it needs more. Close it before
// the node is closed.
func New(n *node.Node, demand uint64) (*Store, error) {
	p, err := pages.New(n, pages.Config{PageBytes: vmm.PageSize, Demand: demand})
	if err != nil {
		return nil, err
	}
	return &Store{pages: p, close: p.Close}, nil
}

// Over returns a store of pages of vmm.PageSize bytes. Close of the store leaves them open.
func Over(p Pages) *Store { return &Store{pages: p, close: func() {}} }

// AllocBuffers is vmm.Allocator's: memory that is registered with the NIC.
func (s *Store) AllocBuffers(n int) ([]byte, error) { return s.pages.AllocBuffers(n) }

// ReadPages is vmm.Store's. Errors are those of package pages.
func (s *Store) ReadPages(list []vmm.Request) { s.pages.ReadPages(convert(list)) }

// WritePages is vmm.Store's.
func (s *Store) WritePages(list []vmm.Request) { s.pages.WritePages(convert(list)) }

// Close ends the store. Requests that are outstanding complete.
func (s *Store) Close() { s.close() }

func convert(list []vmm.Request) []pages.Request {
	out := make([]pages.Request, len(list))
	for i, r := range list {
		out[i] = pages.Request(r)
	}
	return out
}
