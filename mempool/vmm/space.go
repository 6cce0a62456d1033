// SPDX-License-Identifier: Apache-2.0

package vmm

import (
	"fmt"
	"sync"
	"time"
)

// space is a pager with its lock, its store and its clock. A function that changes the pager calls flush
// after it has released the lock.
type space struct {
	mu       sync.Mutex
	p        *pager
	store    Store
	flushing bool
	closed   bool
	wake     chan struct{} // the timer has something to do
	ended    chan struct{} // closed by close
	last     time.Time     // of the last tick
}

func newSpace(mem memory, c *Config, store Store) (*space, error) {
	buffers, err := allocBuffers(store, maxBuffers*PageSize)
	if err != nil {
		return nil, err
	}
	s := &space{
		p:     newPager(mem, int(c.Size/PageSize), int(c.Local/PageSize), int(c.Threshold/PageSize), c.Deadline, buffers),
		store: store, wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	go s.timer()
	return s, nil
}

func allocBuffers(store Store, n int) ([]byte, error) {
	a, ok := store.(Allocator)
	if !ok {
		return make([]byte, n), nil
	}
	b, err := a.AllocBuffers(n)
	if err == nil && len(b) != n {
		err = fmt.Errorf("%d bytes instead of %d", len(b), n)
	}
	if err != nil {
		return nil, fmt.Errorf("vmm: buffers of the store: %w", err)
	}
	return b, nil
}

// flush gives the store what the pager has decided. Only one goroutine does so at a time; a
// store that completes requests at once calls flush again, which returns.
func (s *space) flush() {
	s.mu.Lock()
	if s.flushing {
		s.mu.Unlock()
		return
	}
	s.flushing = true
	for {
		reads, writes := s.p.reads, s.p.writeBacks
		s.p.reads, s.p.writeBacks = nil, nil
		if s.closed {
			break
		}
		if len(reads)+len(writes) == 0 {
			if !s.p.evictLater {
				break
			}
			s.p.evictLater = false
			s.p.evict(time.Now())
			continue
		}
		readList := s.requests(reads, (*pager).readDone)
		writeList := s.requests(writes, (*pager).writeDone)
		s.mu.Unlock()
		if len(readList) > 0 {
			s.store.ReadPages(readList)
		}
		if len(writeList) > 0 {
			s.store.WritePages(writeList)
		}
		s.mu.Lock()
	}
	s.flushing = false
	watch := !s.p.idle()
	s.mu.Unlock()
	if watch {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

func (s *space) requests(pages []int64, done func(*pager, int64, error, time.Time)) []Request {
	list := make([]Request, 0, len(pages))
	for _, n := range pages {
		list = append(list, Request{Page: n, Data: s.p.data[n], Done: func(err error) {
			s.mu.Lock()
			if !s.closed {
				done(s.p, n, err, time.Now())
			}
			s.mu.Unlock()
			s.flush()
		}})
	}
	return list
}

const (
	tick = 5 * time.Millisecond // the resolution of deadlines
	// A tick that is later by standstill shows that this process did not run: a stopped process, a suspended or migrated machine.
	// Pages may have arrived that it has not seen, so the time does not count.
	standstill = 250 * time.Millisecond
)

// timer ends faults at their deadline. It sleeps while there are none.
func (s *space) timer() {
	for {
		select {
		case <-s.ended:
			return
		case <-s.wake:
		}
		select {
		case <-s.ended:
			return
		case <-time.After(tick):
		}
		s.ticked()
	}
}

// ticked is the work of the timer.
func (s *space) ticked() {
	s.mu.Lock()
	if s.closed { // during the tick: the memory may have been freed
		s.mu.Unlock()
		return
	}
	now := time.Now()
	// From the last tick on: the process may also stop between two waits of the timer.
	if late := now.Sub(s.last) - tick; late >= standstill {
		s.p.postpone(late, now)
	}
	s.last = now
	s.p.expire(now)
	s.mu.Unlock()
	s.flush() // sets wake again while faults are outstanding
}

// idle reports that no access waits for a page.
func (s *space) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.p.idle()
}

// close ends all faults with ErrClosed. Requests of the store that are outstanding complete
// without effect.
func (s *space) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.p.closeAll(ErrClosed)
	close(s.ended)
}
