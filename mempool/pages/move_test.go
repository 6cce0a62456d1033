// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"errors"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/vmm"
)

// resting is a store of two slabs whose lease does not change during a test, with page 1.
func resting(t *testing.T) (s *Store, data []byte) {
	t.Helper()
	dev, at := pool(t, 2, testkit.Patience)
	n, err := node.Join(testkit.Context(t), dev, at, node.Config{Name: "a", Period: time.Minute, Demand: 2 * slabBytes})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = n.Close() })
	s, data = newStore(t, n, Config{Demand: 2 * slabBytes})
	fill(data, 1, 1)
	testkit.Must(t, access(s.WritePages, 1, data))
	return s, data
}

// A move that fails takes no room.
func TestMoveFails(t *testing.T) {
	s, data := resting(t)
	s.mu.Lock()
	room := s.room
	p := &page{slab: &slab{number: 99, leaving: true, pages: map[int64]*page{}}} // that is not leased
	s.pages[2] = p
	s.mu.Unlock()
	if s.move(testkit.Context(t), 2, p, data) {
		t.Error("a page of a slab that is not leased was moved")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.room != room {
		t.Errorf("room for %d pages, %d before", s.room, room)
	}
	delete(s.pages, 2)
}

// A request that comes while its page is moved is started after that.
func TestRequestDuringMove(t *testing.T) {
	s, data := resting(t)
	s.mu.Lock()
	p := s.pages[1]
	p.moving = true
	s.mu.Unlock()
	done := make(chan error, 1)
	buf, err := s.AllocBuffers(pageBytes)
	testkit.Must(t, err)
	s.ReadPages([]vmm.Request{{Page: 1, Data: buf, Done: func(err error) { done <- err }}})
	s.mu.Lock()
	if p.busy != 0 || len(p.waiting) != 1 {
		t.Errorf("%d requests are started and %d wait", p.busy, len(p.waiting))
	}
	p.slab.leaving = true
	s.places.collect(nil)
	for _, x := range s.slabs {
		if !x.leaving {
			s.places.collect([]*slab{x})
		}
	}
	s.mu.Unlock()
	if !s.move(testkit.Context(t), 1, p, data) {
		t.Fatal("the page was not moved")
	}
	select {
	case err := <-done:
		testkit.Must(t, err)
		check(t, buf, 1, 1)
	case <-testkit.Context(t).Done():
		t.Fatal("the request was not started")
	}
}

// What was refused is wanted until the next lease.
func TestRefusedUntilLease(t *testing.T) {
	s, data := resting(t)
	for page := range int64(2 * slabPages) {
		testkit.Must(t, access(s.WritePages, page, data))
	}
	if err := access(s.WritePages, 100, data); !errors.Is(err, ErrNoRoom) {
		t.Fatalf("the space is full: %v", err)
	}
	s.mu.Lock()
	refused := s.refused
	s.mu.Unlock()
	s.takeLease()
	s.mu.Lock()
	defer s.mu.Unlock()
	if refused != 1 || s.refused != 0 {
		t.Errorf("%d pages are wanted in addition, and %d after a lease", refused, s.refused)
	}
}
