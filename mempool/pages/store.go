// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/vmm"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
)

// Errors of requests.
var (
	ErrLost     = errors.New("the page is lost: its slab is no longer leased")
	ErrNoRoom   = errors.New("no room in the leased space")
	ErrNoPage   = errors.New("the page was never written")
	errPageSize = errors.New("the data is not one page")
)

// Config are the properties of a Store.
type Config struct {
	PageBytes int     // a power of two, 512 to the length of a slab; 0 for 4096
	Demand    uint64  // bytes that the node wants in the pool at least
	Watcher   Watcher // watcher of the pages; nil: none
}

// Watcher gets what happens to the pages of a store. Its methods are called one after the other, and may
// call those of the store but Close.
type Watcher interface {
	Room(pages int)         // after a lease: how many pages find room that have none yet
	Lost(pages []int64)     // their slabs have ended
	Squeezed(pages []int64) // their slabs must be returned, and there is no room for them; told repeatedly
}

type noWatcher struct{}

func (noWatcher) Room(int)         {}
func (noWatcher) Lost([]int64)     {}
func (noWatcher) Squeezed([]int64) {}

// Store keeps pages. Any goroutine may call its methods. It is a store of package vmm.
type Store struct {
	n      *node.Node
	c      Config
	cancel context.CancelFunc
	all    sync.WaitGroup
	more   chan struct{} // signalled when queue has grown

	mu      sync.Mutex // guards the fields below
	pages   map[int64]*page
	slabs   map[uint32]*slab
	places          // free slots of slabs that need not be returned
	stored  int     // pages that have a slot
	refused int     // WRITEs without room since the last lease
	queue   []entry // requests to start
	closed  bool
}

// page is a page that was written.
type page struct {
	slab    *slab // nil: lost
	slot    int
	busy    int // requests outstanding
	kept    []kept
	moving  bool // the page is being moved to another slab
	waiting []func()
}

// kept is a slot that a page has no more, and that requests of the page may still access: a READ is repeated when a
// response is lost. No other page has it meanwhile.
type kept struct {
	slab *slab
	slot int
}

// slab is a leased slab.
type slab struct {
	number  uint32
	remote  rdma.Remote
	leaving bool // the slab must be returned, or its lease has ended
	runs    []*run
	pages   map[int64]*page
}

var (
	_ vmm.Store     = (*Store)(nil)
	_ vmm.Allocator = (*Store)(nil)
)

// New makes a store on a connection, which stays the caller's. Nothing else accesses the slabs of the node.
func New(n *node.Node, c Config) (*Store, error) {
	if c.PageBytes == 0 {
		c.PageBytes = vmm.PageSize
	}
	if c.Watcher == nil {
		c.Watcher = noWatcher{}
	}
	if c.PageBytes < 512 || c.PageBytes&(c.PageBytes-1) != 0 || uint64(c.PageBytes) > n.SlabBytes() {
		return nil, fmt.Errorf("pages: %d bytes: choose a power of two from 512 to %d", c.PageBytes, n.SlabBytes())
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Store{n: n, c: c, cancel: cancel, more: make(chan struct{}, 1), pages: map[int64]*page{}, slabs: map[uint32]*slab{}, places: newPlaces(c.PageBytes)}
	buf, err := n.Alloc(c.PageBytes)
	if err != nil {
		cancel()
		return nil, err
	}
	s.refresh()
	s.all.Go(func() { s.follow(ctx, buf) })
	s.all.Go(func() { s.issue(ctx) })
	return s, nil
}

// AllocBuffers returns memory for vmm.Request.Data that is registered with the NIC, until Close of the node.
func (s *Store) AllocBuffers(bytes int) ([]byte, error) { return s.n.Alloc(bytes) }

// ReadPages implements vmm.Store. Data of each request is in memory of AllocBuffers. Errors are those of this
// package, and after the end of the connection those of [node.Node.Err].
func (s *Store) ReadPages(list []vmm.Request) { s.start(false, list) }

// WritePages implements vmm.Store. Data of each request is in memory of AllocBuffers.
func (s *Store) WritePages(list []vmm.Request) { s.start(true, list) }

// SetDemand changes Config.Demand.
func (s *Store) SetDemand(bytes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.c.Demand = bytes
	s.setDemand()
}

// Forget frees the places of pages. They are as if they had never been written.
func (s *Store) Forget(list ...int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, number := range list {
		p := s.pages[number]
		switch {
		case p == nil:
		case p.moving:
			p.waiting = append(p.waiting, func() { s.Forget(number) })
		default:
			s.remove(number, p)
			delete(s.pages, number)
		}
	}
	s.setDemand()
}

// Placed reports whether a page has a place: it was written, or is being written, and is not lost.
func (s *Store) Placed(number int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pages[number]
	return p != nil && p.slab != nil
}

// Close ends the store. Requests that are outstanding complete.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.all.Wait()
}

func (s *Store) start(write bool, list []vmm.Request) {
	for i, r := range list {
		s.mu.Lock()
		err := s.begin(write, i == 0, r)
		s.mu.Unlock()
		if err != nil {
			r.Done(fmt.Errorf("pages: page %d: %w", r.Page, err))
		}
	}
}

// begin begins a request, or has it wait until the page has moved. first: it is the first of its call, and the
// most urgent one. The store is locked.
func (s *Store) begin(write, first bool, r vmm.Request) error {
	p := s.pages[r.Page]
	switch {
	case s.closed:
		return context.Canceled
	case len(r.Data) != s.c.PageBytes:
		return errPageSize
	case p == nil && !write:
		return ErrNoPage
	case p != nil && p.moving:
		p.waiting = append(p.waiting, func() { s.start(write, []vmm.Request{r}) })
		return nil
	case p != nil && p.slab == nil && !write:
		return s.because(ErrLost)
	}
	if p == nil {
		p = &page{}
	}
	if write && (p.slab == nil || p.slab.leaving && p.busy == 0 && s.room > 0) {
		to, slot := s.take(r.Page)
		if to == nil {
			if err := s.n.Err(); err != nil { // the connection has ended: there is no lease any more
				return err
			}
			s.refused++
			s.setDemand()
			return ErrNoRoom
		}
		s.put(r.Page, p, to, slot)
	}
	p.busy++
	s.queue = append(s.queue, entry{p: p, r: r, alone: first && !write, Op: node.Op{
		Write: write, Slab: p.slab.number, Key: p.slab.remote.RKey, Offset: s.offset(p.slot), Data: r.Data,
	}})
	select {
	case s.more <- struct{}{}:
	default:
	}
	return nil
}

// because adds to an error why the connection has ended, if it has.
func (s *Store) because(err error) error {
	if ended := s.n.Err(); ended != nil {
		return fmt.Errorf("%w: %w", err, ended)
	}
	return err
}

// offset returns where a slot begins in its slab.
func (s *Store) offset(slot int) uint64 { return uint64(slot) * uint64(s.c.PageBytes) }

// finish completes the requests of an operation. A page that a WRITE has reached is lost nevertheless if its slab has ended
// meanwhile.
func (s *Store) finish(list []entry, err error) {
	s.mu.Lock()
	for i := range list {
		e := &list[i]
		e.lost = errors.Is(err, node.ErrNotLeased) || err == nil && e.Write && e.p.slab == nil && s.pages[e.r.Page] == e.p
		if e.p.busy--; e.p.busy > 0 {
			continue
		}
		for _, k := range e.p.kept {
			s.give(k.slab, k.slot)
		}
		e.p.kept = nil
	}
	s.mu.Unlock()
	for _, e := range list {
		if e.lost {
			e.r.Done(fmt.Errorf("pages: page %d: %w", e.r.Page, s.because(ErrLost)))
			continue
		}
		e.r.Done(err)
	}
}

// issue starts what is queued, so that the methods of Store need not wait.
func (s *Store) issue(ctx context.Context) {
	for {
		s.mu.Lock()
		list, closed := s.queue, s.closed
		s.queue = nil
		s.mu.Unlock()
		s.n.Start(ctx, s.combine(list)...)
		switch {
		case closed: // nothing is queued any more
			return
		case len(list) > 0:
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.more:
		}
	}
}

// put places a page in a slot, and frees the one that it had.
func (s *Store) put(number int64, p *page, to *slab, slot int) {
	s.remove(number, p)
	p.slab, p.slot = to, slot
	to.pages[number] = p
	s.pages[number] = p
	s.stored++
	s.setDemand()
}

// remove takes a page out of its slab: it is lost until put.
func (s *Store) remove(number int64, p *page) {
	x := p.slab
	if x == nil {
		return
	}
	delete(x.pages, number)
	if p.busy > 0 {
		p.kept = append(p.kept, kept{x, p.slot})
	} else {
		s.give(x, p.slot)
	}
	p.slab = nil
	s.stored--
}

func (s *Store) setDemand() {
	s.n.SetDemand(max(s.c.Demand, uint64(s.stored+s.refused)*uint64(s.c.PageBytes)))
}

// follow follows the leases: pages of slabs that must be returned are moved.
func (s *Store) follow(ctx context.Context, buf []byte) {
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.n.Done():
			s.refresh() // all pages are lost
			return
		case <-s.n.Changed():
		case <-retry.C:
		}
		s.refresh()
		if s.moveAll(ctx, buf) {
			retry.Reset(5 * time.Millisecond) // a page is in use, or there is no room now
		}
	}
}

// refresh takes the lease of the node.
func (s *Store) refresh() {
	lost, room := s.takeLease()
	if len(lost) > 0 {
		s.c.Watcher.Lost(lost)
	}
	s.c.Watcher.Room(room)
}

// takeLease returns the pages whose slabs have ended, and how many find room.
func (s *Store) takeLease() (lost []int64, room int) {
	lease := s.n.Lease()
	s.mu.Lock()
	defer s.mu.Unlock()
	now, order := map[uint32]*slab{}, make([]*slab, 0, len(lease.Slabs))
	for _, l := range lease.Slabs {
		x := s.slabs[l.Number]
		if x == nil || x.remote != l.Remote {
			x = &slab{number: l.Number, remote: l.Remote, pages: map[int64]*page{}}
			x.runs = s.divide(x, int(l.Remote.Len)/s.c.PageBytes)
		}
		x.leaving = !l.Return.IsZero()
		now[l.Number] = x
		order = append(order, x)
	}
	for _, x := range s.slabs {
		if now[x.number] == x {
			continue
		}
		x.leaving = true // nothing is placed there
		for number, p := range x.pages {
			s.remove(number, p)
			lost = append(lost, number)
		}
	}
	s.slabs = now
	s.places.collect(order)
	s.refused = 0
	s.setDemand()
	return lost, s.room
}

// moveAll moves pages out of slabs that must be returned, and returns these slabs. True: some are left.
func (s *Store) moveAll(ctx context.Context, buf []byte) (left bool) {
	s.mu.Lock()
	var empty []uint32
	type task struct {
		number int64
		page   *page
	}
	var tasks []task
	for _, x := range s.slabs {
		if x.leaving && len(x.pages) == 0 {
			empty = append(empty, x.number)
		}
		for number, p := range x.pages {
			if x.leaving {
				tasks = append(tasks, task{number, p})
			}
		}
	}
	squeezed := s.room < len(tasks)
	s.mu.Unlock()
	if len(empty) > 0 && s.n.Return(ctx, empty...) == nil {
		s.refresh()
	}
	var stay []int64
	for _, t := range tasks {
		if !s.move(ctx, t.number, t.page, buf) {
			left = true
			stay = append(stay, t.number)
		}
	}
	if squeezed && len(stay) > 0 {
		s.c.Watcher.Squeezed(stay)
	}
	return left || len(tasks) > 0
}

// move moves a page to a slab that need not be returned. False: it is in use, or there is no room.
func (s *Store) move(ctx context.Context, number int64, p *page, buf []byte) bool {
	s.mu.Lock()
	from := p.slab
	if from == nil || !from.leaving {
		s.mu.Unlock()
		return true
	}
	if p.busy > 0 || s.room == 0 {
		s.mu.Unlock()
		return false
	}
	to, slot := s.take(number)
	p.moving = true
	read := node.Op{Slab: from.number, Key: from.remote.RKey, Offset: s.offset(p.slot), Data: buf}
	s.mu.Unlock()

	err := s.do(ctx, read)
	if err == nil {
		err = s.do(ctx, node.Op{Write: true, Slab: to.number, Key: to.remote.RKey, Offset: s.offset(slot), Data: buf})
	}

	s.mu.Lock()
	current := s.slabs[to.number] == to // it is still leased
	switch {
	case err == nil && current:
		s.put(number, p, to, slot)
	case current:
		s.give(to, slot)
	}
	p.moving = false
	waiting := p.waiting
	p.waiting = nil
	s.mu.Unlock()
	for _, begin := range waiting {
		begin()
	}
	return err == nil
}

// do executes an operation.
func (s *Store) do(ctx context.Context, o node.Op) error {
	done := make(chan error, 1)
	o.Done = func(err error) { done <- err }
	s.n.Start(ctx, o)
	return <-done
}
