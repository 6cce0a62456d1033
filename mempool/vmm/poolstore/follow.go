// SPDX-License-Identifier: Apache-2.0

package poolstore

import (
	"context"
	"time"
)

// retryMove is the time before a slab that has to be returned is looked at again, whose pages were
// busy or found no room.
const retryMove = 5 * time.Millisecond

// follow takes the leases of the node, and moves pages out of slabs that have to be returned.
func (s *Store) follow() {
	s.takeLease()
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-s.ended:
			return
		case <-s.n.Done():
			return // requests fail with the reason
		case <-s.n.Changed():
			s.takeLease()
		case <-again.C:
		}
		if s.move() {
			again.Reset(retryMove)
		}
	}
}

func (s *Store) takeLease() {
	lease := s.n.Lease()
	s.mu.Lock()
	s.l.update(lease)
	clear(s.refused)
	s.setDemand()
	s.mu.Unlock()
}

// move moves pages out of slabs that have to be returned, and returns the slabs that are empty. It
// reports whether some are left.
func (s *Store) move() bool {
	type task struct {
		page int64
		data []byte
	}
	var tasks []task
	var empty []uint32
	left := false
	s.mu.Lock()
	for number, x := range s.l.slabs {
		if !x.leaving {
			continue
		}
		if len(x.pages) == 0 {
			empty = append(empty, number)
			continue
		}
		left = true
		for slot, page := range x.pages {
			_, busy := s.busy[page]
			if !busy && s.l.pages[page] == (place{number, slot}) && len(tasks) < min(spares, s.l.room()) {
				tasks = append(tasks, task{page, s.spare[len(tasks)]})
			}
		}
	}
	s.mu.Unlock()
	results := make(chan struct{}, len(tasks))
	for _, t := range tasks {
		s.movePage(t.page, t.data, func() { results <- struct{}{} })
	}
	for range tasks {
		select {
		case <-results:
		case <-s.ended:
			return false
		}
	}
	if len(empty) > 0 {
		s.mu.Lock()
		for _, number := range empty {
			delete(s.l.slabs, number) // it is empty, and nothing is placed there
		}
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.n.Return(ctx, empty...) // the connection has ended otherwise
	}
	return left
}

// movePage copies a page to another place. Requests of the page wait for each of both steps, and a
// WRITE in between has moved the page itself: the copy must not follow it.
func (s *Store) movePage(page int64, data []byte, done func()) {
	s.mu.Lock()
	if _, busy := s.busy[page]; busy {
		s.mu.Unlock()
		done()
		return
	}
	from := s.l.pages[page]
	err := s.enqueue(page, data, false, func(err error) {
		if err != nil {
			done()
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, busy := s.busy[page]; busy || s.l.pages[page] != from {
			done()
		} else if s.enqueue(page, data, true, func(error) { done() }) != nil {
			done()
		} else {
			s.moved++
			s.signal()
		}
	})
	s.mu.Unlock()
	s.signal()
	if err != nil {
		done()
	}
}
