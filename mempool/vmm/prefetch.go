// SPDX-License-Identifier: Apache-2.0

package vmm

import "time"

// prefetch reads the pages of a batch that are in the store. It takes free local pages only, and
// none that an access waits for.
func (p *pager) prefetch(b batch) {
	var started []int64
	if b.pages == 0 {
		return
	}
	n := b.first
	for range b.pages {
		if n < 0 || n >= int64(len(p.pages)) || len(p.queue) > 0 || len(p.free) == 0 ||
			p.prefetches >= maxPrefetches || len(p.buffers) <= maxWrites {
			break
		}
		if pg := &p.pages[n]; pg.state == stateRemote {
			p.startRead(n)
			pg.prefetched, pg.marker = true, false
			p.prefetches++
			started = append(started, n)
		}
		n += b.stride
	}
	p.trend.next = n
	if len(started) > 0 {
		p.pages[started[0]].marker = true
	}
}

// prefetchHit is the first access to a page, if it was prefetched.
func (p *pager) prefetchHit(n int64, now time.Time) {
	pg := &p.pages[n]
	if !pg.prefetched {
		return
	}
	marker := pg.marker
	pg.prefetched, pg.marker = false, false
	p.stats.PrefetchHits++
	p.prefetch(p.trend.hit(n, marker))
	p.evictSoon(now)
}

// endPrefetch counts the end of a READ without an access: its page is accessed, or leaves its
// buffer.
func (p *pager) endPrefetch(n int64) {
	if pg := &p.pages[n]; pg.prefetched && (pg.state == stateReading || pg.state == stateHeld) {
		p.prefetches--
	}
}

// request reads pages that a call is going to access, as far as pages are free.
func (p *pager) request(first, last int64) {
	for n := first; n <= last; n++ {
		if len(p.queue) > 0 || len(p.free) <= 1 || p.prefetches >= maxPrefetches || len(p.buffers) <= maxWrites {
			return
		}
		if pg := &p.pages[n]; pg.state == stateRemote {
			p.startRead(n)
			pg.prefetched, pg.marker = true, false
			p.prefetches++
		}
	}
}
