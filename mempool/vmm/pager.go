// SPDX-License-Identifier: Apache-2.0

package vmm

import (
	"fmt"
	"time"
)

// pager decides which pages are local. It is a state machine without goroutines, clock or I/O
// other than that of its memory: accesses, completions of the store and the time go in; what the
// store has to do comes out in reads and writes.
//
//	fresh ──access──► resident ◄──READ done── reading ◄──access── remote
//	                     └──────────────drop, after a WRITE if dirty──────┘
//
// An access that needs a local page while none is free is queued. Local pages are freed before
// that: as soon as fewer than threshold are free (evict.go).
type pager struct {
	mem       memory
	pages     []page
	slots     []int64 // the pages in local memory; noPage is a free slot
	free      []uint32
	hand      int   // hand of the clock
	keep      int64 // the page of the last access, which is not evicted
	threshold int   // free slots that eviction keeps
	deadline  time.Duration

	faults map[int64]*fault
	order  []*fault // faults by deadline
	queue  []*fault // accesses without a local page, oldest first
	trend  trend

	buffers    [][]byte // free
	data       map[int64][]byte
	prefetches int // reading or held, without an access
	writes     int // outstanding
	writeErr   error
	retryAt    time.Time // no WRITE is started before, after an error

	reads, writeBacks []int64 // page numbers for the store
	evictLater        bool    // evict has to be called, after the reads were started
	stats             Stats
	causes            map[int64]error // causes of lost pages
	usage             Usage
	period            uint32
}

const noPage = -1

// Limits of requests to the store. Each needs a buffer.
const (
	maxDemand     = 64
	maxPrefetches = 2 * maxWindow
	maxWrites     = 32
	maxBuffers    = maxDemand + maxPrefetches + maxWrites
)

func newPager(mem memory, pages, local, threshold int, deadline time.Duration, buffers []byte) *pager {
	p := &pager{
		mem: mem, pages: make([]page, pages), slots: make([]int64, local), threshold: threshold, deadline: deadline,
		faults: map[int64]*fault{}, data: map[int64][]byte{}, causes: map[int64]error{}, period: 1, keep: noPage,
	}
	p.trend.max = min(maxWindow, local/8)
	for i := len(p.slots) - 1; i >= 0; i-- {
		p.slots[i] = noPage
		p.free = append(p.free, uint32(i))
	}
	for at := 0; at < len(buffers); at += PageSize {
		p.buffers = append(p.buffers, buffers[at:][:PageSize:PageSize])
	}
	return p
}

// access is a read or write of a page. It returns nil, nil if the page is resident; a fault that
// ends later; or the error of a lost page.
func (p *pager) access(n int64, m mode, now time.Time) (*fault, error) {
	pg := &p.pages[n]
	p.keep = n
	switch pg.state {
	case stateResident:
		p.touch(n, m)
		p.prefetchHit(n, now)
		return nil, nil
	case stateLost:
		return nil, p.lostError(n)
	case stateHeld:
		p.stats.Faults++
		return nil, p.accessHeld(n, m, now)
	}
	p.stats.Faults++
	f := p.faults[n]
	if f == nil {
		f = &fault{page: n, began: now, deadline: now.Add(p.deadline)}
		p.faults[n] = f
		p.order = append(p.order, f)
	}
	f.mode = max(f.mode, m)
	switch pg.state {
	case stateReading:
		p.endPrefetch(n)
		p.prefetchHit(n, now)
	case stateFresh, stateRemote:
		if len(p.free) <= p.threshold {
			p.stats.NoRoom++
			p.usage.Demand++
		}
		b := p.trend.miss(n)
		pg.state = stateQueued
		p.queue = append(p.queue, f)
		p.pump()
		p.prefetch(b)
	}
	p.evictSoon(now)
	if f.finished {
		return nil, f.err
	}
	return f, nil
}

// overwrite makes data the content of a page without reading the old content. It returns false
// if the page has to be accessed as any other.
func (p *pager) overwrite(n int64, data []byte, now time.Time) bool {
	pg := &p.pages[n]
	if pg.state != stateFresh && pg.state != stateRemote || len(p.free) == 0 {
		return false
	}
	if err := p.mem.install(n, data, true); err != nil {
		return false
	}
	p.takeSlot(n)
	p.resident(n, forWrite)
	p.evictSoon(now)
	return true
}

// touch is an access to a resident page.
func (p *pager) touch(n int64, m mode) {
	pg := &p.pages[n]
	pg.referenced = true
	if m == forWrite {
		pg.dirty = true
	}
}

// pump gives local pages to queued accesses, while there are any.
func (p *pager) pump() {
	for len(p.queue) > 0 && len(p.free) > 0 {
		f := p.queue[0]
		pg := &p.pages[f.page]
		if pg.stored && len(p.buffers) == 0 {
			return
		}
		p.queue = p.queue[1:]
		if pg.stored {
			p.startRead(f.page)
			continue
		}
		if err := p.mem.install(f.page, nil, f.mode == forWrite); err != nil {
			pg.state = stateFresh
			p.fail(f, err)
			continue
		}
		p.takeSlot(f.page)
		p.resident(f.page, f.mode)
		p.finish(f, nil)
	}
}

// startRead reads a page from the store into a buffer.
func (p *pager) startRead(n int64) {
	p.takeSlot(n)
	p.touched(n)
	p.data[n] = p.takeBuffer()
	p.pages[n].state = stateReading
	p.reads = append(p.reads, n)
}

// readDone is the completion of a READ.
func (p *pager) readDone(n int64, err error, now time.Time) {
	pg, f := &p.pages[n], p.faults[n]
	switch {
	case pg.state == stateLost: // it came after the deadline
		p.freeSlot(n)
		p.freeBuffer(n)
	case err != nil:
		p.stats.ReadErrors++
		p.dropRead(n)
		if f != nil {
			p.fail(f, err)
		}
	case f == nil && pg.marker && p.mem.hidden():
		p.stats.Prefetched++
		pg.state = stateHeld
	case f == nil:
		p.stats.Prefetched++
		_ = p.install(n, forRead) // if it fails, the page is still in the store
	default:
		p.stats.PageIns++
		if err := p.install(n, f.mode); err != nil {
			p.fail(f, err)
		} else {
			p.finish(f, nil)
		}
	}
	p.pump()
	p.evict(now)
}

// accessHeld is an access to a page that was prefetched and not installed.
func (p *pager) accessHeld(n int64, m mode, now time.Time) error {
	marker := p.pages[n].marker
	if err := p.install(n, m); err != nil {
		return &PageError{Offset: n * PageSize, Err: p.lose(n, err)}
	}
	p.pages[n].prefetched, p.pages[n].marker = true, marker
	p.prefetchHit(n, now)
	return nil
}

// install makes a page resident whose content is in a buffer. If that fails, the page is as it
// was in the store.
func (p *pager) install(n int64, m mode) error {
	if err := p.mem.install(n, p.data[n], m == forWrite); err != nil {
		p.dropRead(n)
		return err
	}
	p.endPrefetch(n)
	p.freeBuffer(n)
	p.resident(n, m)
	return nil
}

// resident enters a page that is in local memory. A prefetched page is referenced like others:
// the clock would free it first, just before a scan comes to it.
func (p *pager) resident(n int64, m mode) {
	pg := &p.pages[n]
	pg.state = stateResident
	pg.referenced = true
	pg.dirty = m == forWrite
	if p.mem.hidden() {
		pg.prefetched, pg.marker = false, false
	}
}

// dropRead forgets a page that was read.
func (p *pager) dropRead(n int64) {
	p.endPrefetch(n)
	p.freeBuffer(n)
	p.freeSlot(n)
	pg := &p.pages[n]
	pg.state, pg.prefetched, pg.marker = stateRemote, false, false
}

// fail ends a fault with an error, and loses the page if its access cannot return the error.
func (p *pager) fail(f *fault, err error) {
	p.finish(f, &PageError{Offset: f.page * PageSize, Err: p.lose(f.page, err)})
}

// lose makes a page that is not resident lost, where accesses cannot return errors.
func (p *pager) lose(n int64, cause error) error {
	if p.mem.poison(n) {
		p.pages[n].state = stateLost
		p.causes[n] = cause
		p.stats.Lost++
	}
	return cause
}

func (p *pager) lostError(n int64) error {
	return &PageError{Offset: n * PageSize, Err: p.causes[n]}
}

// finish ends a fault.
func (p *pager) finish(f *fault, err error) {
	if p.faults[f.page] == f {
		delete(p.faults, f.page)
	}
	f.finished, f.err = true, err
	if f.waiters != nil {
		close(f.waiters)
	}
}

// postpone moves all deadlines, of a fault by no more than its age: there were no ticks before the first fault.
func (p *pager) postpone(by time.Duration, now time.Time) {
	for _, f := range p.order {
		f.deadline = f.deadline.Add(min(by, now.Sub(f.began)))
	}
}

// expire ends the faults whose deadline has passed, and retries WRITEs that failed.
func (p *pager) expire(now time.Time) {
	for len(p.order) > 0 && (p.order[0].finished || !now.Before(p.order[0].deadline)) {
		f := p.order[0]
		p.order = p.order[1:]
		if f.finished {
			continue
		}
		p.stats.Deadlines++
		pg, err := &p.pages[f.page], ErrDeadline
		if pg.state == stateQueued {
			if err = ErrNoRoom; p.writeErr != nil {
				err = fmt.Errorf("%w; the last WRITE to the pool failed: %w", ErrNoRoom, p.writeErr)
			}
			p.unqueue(f)
			pg.state = stateFresh
			if pg.stored {
				pg.state = stateRemote
			}
		}
		p.fail(f, err) // a READ stays outstanding; its completion finds the page reading, or lost
	}
	p.evict(now)
}

// closeAll ends all faults.
func (p *pager) closeAll(err error) {
	for _, f := range p.faults {
		p.finish(f, &PageError{Offset: f.page * PageSize, Err: err})
	}
	p.queue, p.order = nil, nil
}

func (p *pager) unqueue(f *fault) {
	for i, q := range p.queue {
		if q == f {
			p.queue = append(p.queue[:i], p.queue[i+1:]...)
			return
		}
	}
}

// idle reports that no deadline is set and no WRITE has to be repeated.
func (p *pager) idle() bool { return len(p.faults) == 0 }

func (p *pager) takeSlot(n int64) {
	slot := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.slots[slot], p.pages[n].slot = n, slot
}

func (p *pager) freeSlot(n int64) {
	slot := p.pages[n].slot
	p.slots[slot] = noPage
	p.free = append(p.free, slot)
}

func (p *pager) takeBuffer() []byte {
	b := p.buffers[len(p.buffers)-1]
	p.buffers = p.buffers[:len(p.buffers)-1]
	return b
}

func (p *pager) freeBuffer(n int64) {
	p.buffers = append(p.buffers, p.data[n])
	delete(p.data, n)
}

// touched counts a page once per period.
func (p *pager) touched(n int64) {
	if pg := &p.pages[n]; pg.period != p.period {
		pg.period = p.period
		p.usage.Touched++
	}
}

// endPeriod returns what was used since the last call.
func (p *pager) endPeriod() Usage {
	u := p.usage
	p.usage = Usage{}
	p.period++
	return u
}

func (p *pager) statistics() Stats {
	s := p.stats
	s.Local, s.Resident = len(p.slots), len(p.slots)-len(p.free)
	return s
}
