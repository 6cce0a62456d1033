// SPDX-License-Identifier: Apache-2.0

package vmm

import (
	"testing"
	"time"
)

// freeableMemory is memory that is not touched after it was freed.
type freeableMemory struct {
	*fakeMemory
	freed bool
}

func (m *freeableMemory) protect(n int64) error {
	if m.freed {
		m.t.Errorf("page %d is protected after the memory was freed", n)
	}
	return m.fakeMemory.protect(n)
}

// noStore is a store without requests.
type noStore struct{}

func (noStore) ReadPages([]Request)  {}
func (noStore) WritePages([]Request) {}

// A tick of the timer that comes after close does not touch the memory, which may be freed.
func TestTickAfterClose(t *testing.T) {
	m := &freeableMemory{fakeMemory: &fakeMemory{t: t, pages: map[int64]byte{}, writable: map[int64]bool{}}}
	s, err := newSpace(m, &Config{Size: 4 * PageSize, Local: 2 * PageSize, Threshold: PageSize, Deadline: time.Second}, noStore{})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	s.mu.Lock()
	for n := range int64(2) { // all local pages are in use: a tick evicts one
		if _, err := s.p.access(n, forWrite, begin); err != nil {
			t.Error(err)
		}
	}
	s.mu.Unlock()
	s.close()
	m.freed = true
	s.ticked()
}

// The process stops after a tick, not while the timer waits for the next one: this time does not count either.
func TestStopBetweenTicks(t *testing.T) {
	m := &fakeMemory{t: t, pages: map[int64]byte{}, writable: map[int64]bool{}}
	s, err := newSpace(m, &Config{Size: 4 * PageSize, Local: 2 * PageSize, Threshold: PageSize, Deadline: time.Second}, noStore{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	begin := time.Now().Add(-1500 * time.Millisecond)
	s.mu.Lock()
	for n := range int64(3) { // the last one waits for a local page
		if _, err := s.p.access(n, forWrite, begin); err != nil {
			t.Error(err)
		}
	}
	s.last = begin.Add(tick)
	if s.p.idle() {
		t.Error("no access waits")
	}
	s.mu.Unlock()
	s.ticked()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.p.stats.Deadlines; n != 0 {
		t.Errorf("%d deadlines have passed", n)
	}
}
