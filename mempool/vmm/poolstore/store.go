// SPDX-License-Identifier: Apache-2.0

package poolstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/vmm"
)

// Errors of requests.
var (
	// ErrFull: no leased slab has room. The store asks the pool for more, which comes at the start
	// of a period, if at all.
	ErrFull = errors.New("the leased space is full")
	// ErrLost: the slab of the page was taken back before the page could be moved.
	ErrLost = errors.New("the pool has taken back the space of the page")
)

// Store keeps pages in the slabs that a node has leased.
type Store struct {
	n     *node.Node
	spare [][]byte // for pages that are moved

	mu      sync.Mutex
	l       *layout
	busy    map[int64][]func() // pages with an operation, and what has to wait for it
	refused map[int64]struct{} // pages that found no room, since the last lease
	queue   []node.Op
	started int // operations of the node that are outstanding
	moved   int // pages that were copied to another slab
	closed  bool
	work    chan struct{}
	ended   chan struct{}
	all     sync.WaitGroup
}

var (
	_ vmm.Store     = (*Store)(nil)
	_ vmm.Allocator = (*Store)(nil)
)

// spares is how many pages are moved at a time.
const spares = 16

// New returns a store in the slabs of a node, which nothing else may use, and whose Config.Depth is
// DefaultDepth or more. The store sets the demand of the node, and returns slabs as the server asks
// for them, after it has moved their pages. Close it before the node is closed.
func New(n *node.Node) (*Store, error) {
	s := &Store{
		n: n, l: newLayout(), busy: map[int64][]func(){}, refused: map[int64]struct{}{},
		work: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	b, err := s.AllocBuffers(spares * vmm.PageSize)
	if err != nil {
		return nil, err
	}
	for ; len(b) > 0; b = b[vmm.PageSize:] {
		s.spare = append(s.spare, b[:vmm.PageSize:vmm.PageSize])
	}
	s.l.update(n.Lease())
	s.all.Go(s.submit)
	s.all.Go(s.follow)
	return s, nil
}

// AllocBuffers is vmm.Allocator's: memory that is registered with the NIC.
func (s *Store) AllocBuffers(n int) ([]byte, error) { return s.n.Alloc(n) }

// ReadPages is vmm.Store's.
func (s *Store) ReadPages(list []vmm.Request) { s.requests(list, false) }

// WritePages is vmm.Store's.
func (s *Store) WritePages(list []vmm.Request) { s.requests(list, true) }

func (s *Store) requests(list []vmm.Request, write bool) {
	for _, r := range list {
		s.request(r.Page, r.Data, write, r.Done)
	}
	s.mu.Lock()
	if s.started+len(s.queue) > direct {
		s.mu.Unlock()
		s.signal()
		return
	}
	s.startQueued()
}

// direct is how many operations may be outstanding for more to be started by the caller, which
// saves a switch of goroutines. The caller may be a completion, which must not wait for room in the
// send queue: direct is far below node.DefaultDepth.
const direct = 16

// startQueued starts the queued operations. The caller has s.mu, which is released.
func (s *Store) startQueued() {
	list := s.queue
	s.queue = nil
	s.started += len(list)
	s.mu.Unlock()
	s.n.Start(context.Background(), list...)
}

// request starts an operation of a page, after the one that the page has.
func (s *Store) request(page int64, data []byte, write bool, done func(error)) {
	s.mu.Lock()
	if waiting, ok := s.busy[page]; ok {
		s.busy[page] = append(waiting, func() { s.request(page, data, write, done) })
		s.mu.Unlock()
		return
	}
	err := s.enqueue(page, data, write, done)
	s.mu.Unlock()
	if err != nil {
		done(fmt.Errorf("page %d: %w", page, err))
	}
}

// enqueue queues an operation of a page that is not busy. It calls done later, or returns an
// error. The caller has s.mu.
func (s *Store) enqueue(page int64, data []byte, write bool, done func(error)) error {
	if s.closed {
		return net.ErrClosed
	}
	at, ok := s.l.pages[page]
	if write {
		if at, ok = s.l.reserve(page); !ok {
			s.refused[page] = struct{}{}
			s.setDemand()
			return fmt.Errorf("%w (%d bytes); the pool gives more at the start of a period, if it can", ErrFull, len(s.l.pages)*vmm.PageSize)
		}
	} else if !ok {
		if _, lost := s.l.lost[page]; lost {
			return ErrLost
		}
		return fmt.Errorf("%w: it was never written", ErrLost)
	}
	s.busy[page] = nil
	s.queue = append(s.queue, node.Op{
		Write: write, Slab: at.slab, Offset: uint64(at.slot) * vmm.PageSize, Data: data,
		Done: func(err error) { done(s.complete(page, at, write, err)) },
	})
	return nil
}

// complete ends an operation of a page, and starts what waits for it.
func (s *Store) complete(page int64, at place, write bool, err error) error {
	if errors.Is(err, node.ErrNotLeased) { // it ended since the last lease was taken
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	s.mu.Lock()
	s.started--
	if write {
		if err == nil && !s.l.commit(page, at) {
			err = ErrLost
		}
		if err != nil {
			s.l.release(page, at)
		} else {
			delete(s.refused, page)
		}
	}
	waiting := s.busy[page]
	delete(s.busy, page)
	s.mu.Unlock()
	for _, f := range waiting {
		f()
	}
	if len(waiting) > 0 {
		s.signal()
	}
	return err
}

// setDemand tells the pool what is stored, and what found no room. The caller has s.mu.
func (s *Store) setDemand() {
	s.n.SetDemand(uint64(len(s.l.pages)+len(s.refused))*vmm.PageSize + s.n.SlabBytes())
}

func (s *Store) signal() {
	select {
	case s.work <- struct{}{}:
	default:
	}
}

// submit starts the queued operations. It is a goroutine of its own, since Start waits while many
// are outstanding, and completions do not.
func (s *Store) submit() {
	for {
		select {
		case <-s.ended:
			return
		case <-s.work:
		}
		s.mu.Lock()
		s.startQueued()
	}
}

// Stored returns how many pages are in the pool, and how many more would find room.
func (s *Store) Stored() (pages, room int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.l.pages), s.l.room()
}

// Moved returns how many pages were copied to other slabs, since the server asked for theirs.
func (s *Store) Moved() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moved
}

// Close ends requests that were not started, with net.ErrClosed. Others complete, or fail when the
// node is closed.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.ended)
	s.mu.Unlock()
	s.all.Wait()
	s.mu.Lock()
	list := s.queue
	s.queue = nil
	s.started += len(list)
	s.mu.Unlock()
	for _, o := range list {
		o.Done(net.ErrClosed)
	}
	return nil
}
