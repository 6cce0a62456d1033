// SPDX-License-Identifier: Apache-2.0

package vmm

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Region is memory that is accessed by calls. It needs no privilege, no kernel feature and no
// other process. Its methods may be called by several goroutines. The bytes of accesses that
// overlap in time and in range are those of one or the other, as in a file.
type Region struct {
	space *space
	mem   *hostMemory
	size  int64
	users sync.WaitGroup // calls that access mem
}

var (
	_ io.ReaderAt = (*Region)(nil)
	_ io.WriterAt = (*Region)(nil)
)

// NewRegion returns a region of zeroes. Pages beyond the local memory are kept by the store, whose
// page numbers are those of the region. The store is not closed by the region, and has to keep
// working until Close has returned.
func NewRegion(c Config, store Store) (*Region, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	mem, err := newHostMemory(int(c.Size))
	if err != nil {
		return nil, err
	}
	s, err := newSpace(mem, &c, store)
	if err != nil {
		_ = mem.free()
		return nil, err
	}
	return &Region{space: s, mem: mem, size: c.Size}, nil
}

// Size returns the bytes of the region, a multiple of PageSize.
func (r *Region) Size() int64 { return r.size }

// ReadAt reads len(b) bytes at off. A range beyond the end is an error (ErrRange, and nothing is
// read); a page that cannot be had is a *PageError, with the bytes before it read.
func (r *Region) ReadAt(b []byte, off int64) (int, error) {
	return r.each(b, off, forRead, func(mem, part []byte) { copy(part, mem) })
}

// WriteAt writes b at off. Errors are those of ReadAt. A page that is written as a whole is not
// read from the store.
func (r *Region) WriteAt(b []byte, off int64) (int, error) {
	return r.each(b, off, forWrite, func(mem, part []byte) { copy(mem, part) })
}

// each calls access for the pages of a range, in order.
func (r *Region) each(b []byte, off int64, m mode, access func(mem, part []byte)) (int, error) {
	if err := r.check(off, int64(len(b))); err != nil {
		return 0, err
	}
	if err := r.enter(); err != nil {
		return 0, err
	}
	defer r.users.Done()
	done := 0
	for done < len(b) {
		n, from := (off+int64(done))/PageSize, int((off+int64(done))%PageSize)
		part := b[done:min(len(b), done+PageSize-from)]
		if m == forWrite && len(part) == PageSize && r.overwrite(n, part) {
			done += PageSize
			continue
		}
		if err := r.pin(n, m, (off+int64(len(b))-1)/PageSize); err != nil {
			return done, err
		}
		access(r.mem.page(n)[from:from+len(part)], part)
		r.unpin(n, n)
		done += len(part)
	}
	return done, nil
}

func (r *Region) overwrite(n int64, data []byte) bool {
	s := r.space
	s.mu.Lock()
	ok := !s.closed && s.p.overwrite(n, data, time.Now())
	s.mu.Unlock()
	if ok {
		s.flush()
	}
	return ok
}

// readAhead is how many pages of one call are requested at a time.
const readAhead = 16

// pin waits until page n is resident and keeps it so. Of the pages up to last that the same call
// needs next, some are requested together with n.
func (r *Region) pin(n int64, m mode, last int64) error {
	s := r.space
	for {
		now := time.Now()
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return &PageError{Offset: n * PageSize, Err: ErrClosed}
		}
		resident := s.p.pages[n].state == stateResident
		f, err := s.p.access(n, m, now)
		if f == nil && err == nil {
			s.p.pages[n].pins++
		}
		if !resident {
			s.p.request(n+1, min(last, n+readAhead))
		}
		if f != nil && f.waiters == nil {
			f.waiters = make(chan struct{})
		}
		pending := s.p.pending()
		s.mu.Unlock()
		if pending || f != nil {
			s.flush()
		}
		if f == nil {
			return err
		}
		<-f.waiters
		if f.err != nil {
			return f.err
		}
	}
}

func (r *Region) unpin(first, last int64) {
	s := r.space
	s.mu.Lock()
	for n := first; n <= last; n++ {
		s.p.pages[n].pins--
	}
	waiting := len(s.p.queue) > 0
	if waiting {
		s.p.evict(time.Now())
	}
	s.mu.Unlock()
	if waiting {
		s.flush()
	}
}

// Pin makes n bytes at off resident and returns them. They are ordinary memory, in place: an
// access to them never faults, until release is called, which must be once and after the last
// access. Writes to them need writable, which also marks the pages as changed, so that they are
// written to the store later.
//
// At most half of the local memory can be pinned in one call. Pages that all calls together have
// pinned are not free for others: if too many are, accesses end with ErrNoRoom.
func (r *Region) Pin(off, n int64, writable bool) (b []byte, release func(), err error) {
	if err := r.check(off, n); err != nil {
		return nil, nil, err
	}
	if n == 0 {
		return nil, func() {}, nil
	}
	first, last := off/PageSize, (off+n-1)/PageSize
	if limit := len(r.space.p.slots) / 2; last-first+1 > int64(limit) {
		return nil, nil, fmt.Errorf("vmm: %w: %d pages to pin; at most %d (half of the local memory)", ErrNoRoom, last-first+1, limit)
	}
	if err := r.enter(); err != nil {
		return nil, nil, err
	}
	m := forRead
	if writable {
		m = forWrite
	}
	for i := first; i <= last; i++ {
		if err := r.pin(i, m, last); err != nil {
			r.unpin(first, i-1)
			r.users.Done()
			return nil, nil, err
		}
	}
	return r.mem.bytes[off : off+n : off+n], func() {
		r.unpin(first, last)
		r.users.Done()
	}, nil
}

// check checks a range. Its error wraps ErrRange.
func (r *Region) check(off, n int64) error {
	if off < 0 || n < 0 || off > r.size || n > r.size-off {
		return fmt.Errorf("vmm: %w: %d bytes at offset %d; the region has %d bytes", ErrRange, n, off, r.size)
	}
	return nil
}

// enter begins a call that accesses the memory.
func (r *Region) enter() error {
	r.space.mu.Lock()
	defer r.space.mu.Unlock()
	if r.space.closed {
		return fmt.Errorf("vmm: region: %w", ErrClosed)
	}
	r.users.Add(1)
	return nil
}

// Stats returns the counters.
func (r *Region) Stats() Stats {
	r.space.mu.Lock()
	defer r.space.mu.Unlock()
	return r.space.p.statistics()
}

// EndPeriod returns the usage since the last call, or since the region was made.
func (r *Region) EndPeriod() Usage {
	r.space.mu.Lock()
	defer r.space.mu.Unlock()
	return r.space.p.endPeriod()
}

// Close ends all accesses that wait, with ErrClosed, and frees the memory once all calls have
// returned and all pinned memory is released. The content is not written to the store.
func (r *Region) Close() error {
	r.space.mu.Lock()
	again := r.space.closed
	r.space.mu.Unlock()
	if again {
		return nil
	}
	r.space.close()
	r.users.Wait()
	return r.mem.free()
}
