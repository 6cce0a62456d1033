// SPDX-License-Identifier: Apache-2.0

package vmm_test

import (
	"fmt"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/mempool/vmm"
)

// memStore keeps pages in memory of this process. A test sets its faults: a delay, errors, requests that are
// never completed. The zero value is ready.
type memStore struct {
	mu     sync.Mutex
	pages  map[int64][]byte
	delay  time.Duration
	read   func(page int64) error
	write  func(page int64) error
	silent bool
	stuck  []func()
	reads  int
	writes int
}

var _ vmm.Store = (*memStore)(nil)

// ReadPages is vmm.Store's. A page that was never written is an error: zeroes would hide a fault
// of the caller.
func (s *memStore) ReadPages(list []vmm.Request) {
	s.start(list, func(r vmm.Request) error {
		s.reads++
		if s.read != nil {
			if err := s.read(r.Page); err != nil {
				return err
			}
		}
		data, ok := s.pages[r.Page]
		if !ok {
			return fmt.Errorf("memStore: page %d was never written", r.Page)
		}
		copy(r.Data, data)
		return nil
	})
}

// WritePages is vmm.Store's.
func (s *memStore) WritePages(list []vmm.Request) {
	s.start(list, func(r vmm.Request) error {
		s.writes++
		if s.write != nil {
			if err := s.write(r.Page); err != nil {
				return err
			}
		}
		if s.pages == nil {
			s.pages = map[int64][]byte{}
		}
		s.pages[r.Page] = append(s.pages[r.Page][:0], r.Data...)
		return nil
	})
}

// start executes requests and completes them, at once or after the delay, or keeps them.
func (s *memStore) start(list []vmm.Request, execute func(vmm.Request) error) {
	list = append([]vmm.Request(nil), list...)
	run := func() {
		for _, r := range list {
			s.mu.Lock()
			err := execute(r)
			s.mu.Unlock()
			r.Done(err)
		}
	}
	s.mu.Lock()
	delay, silent := s.delay, s.silent
	if silent {
		s.stuck = append(s.stuck, run)
	}
	s.mu.Unlock()
	switch {
	case silent:
	case delay > 0:
		time.AfterFunc(delay, run)
	default:
		run()
	}
}

// SetDelay completes each later request after d, from another goroutine.
func (s *memStore) SetDelay(d time.Duration) {
	s.mu.Lock()
	s.delay = d
	s.mu.Unlock()
}

// SetErrors calls read and write for each page that is read or written, and fails the request
// if they return an error. nil is no error.
func (s *memStore) SetErrors(read, write func(page int64) error) {
	s.mu.Lock()
	s.read, s.write = read, write
	s.mu.Unlock()
}

// SetSilent keeps later requests without completing them, or completes all of them.
func (s *memStore) SetSilent(silent bool) {
	s.mu.Lock()
	s.silent = silent
	var stuck []func()
	if !silent {
		stuck, s.stuck = s.stuck, nil
	}
	s.mu.Unlock()
	for _, run := range stuck {
		run()
	}
}

// Counts returns the pages that were read and written.
func (s *memStore) Counts() (reads, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads, s.writes
}
