// SPDX-License-Identifier: Apache-2.0

package vmm

import "time"

// retryWrite is the time before a WRITE is repeated that the store has failed.
const retryWrite = 10 * time.Millisecond

// evict frees local pages until threshold are free, with those that are being written counted as
// free. It is the clock algorithm: a page that was referenced since the hand was there last stays.
// A dirty page stays, and is accessible, until its WRITE has completed.
func (p *pager) evict(now time.Time) {
	wanted := p.threshold + len(p.queue)
	for range 2 * len(p.slots) {
		if len(p.free)+p.writes >= wanted || p.writes >= maxWrites {
			break
		}
		n := p.slots[p.hand]
		p.hand = (p.hand + 1) % len(p.slots)
		if n == noPage {
			continue
		}
		pg := &p.pages[n]
		switch {
		case pg.pins > 0 || pg.writing || n == p.keep:
		case pg.state == stateHeld:
			p.dropRead(n)
			p.stats.Drops++
		case pg.state != stateResident:
		case pg.referenced:
			pg.referenced = false
		case !pg.dirty:
			p.drop(n)
		case now.Before(p.retryAt) || len(p.buffers) == 0:
		default:
			p.startWrite(n)
		}
	}
	p.pump()
}

// evictSoon evicts at once if an access waits for room, and otherwise leaves it to flush: what was
// accessed should not wait for the eviction of other pages.
func (p *pager) evictSoon(now time.Time) {
	if len(p.queue) > 0 {
		p.evict(now)
	} else {
		p.evictLater = true
	}
}

// pending reports that flush has something to do.
func (p *pager) pending() bool { return p.evictLater || len(p.reads)+len(p.writeBacks) > 0 }

// startWrite writes a copy of a resident page to the store.
func (p *pager) startWrite(n int64) {
	pg := &p.pages[n]
	if p.mem.protect(n) != nil {
		return
	}
	b := p.takeBuffer()
	if p.mem.snapshot(n, b) != nil {
		p.buffers = append(p.buffers, b)
		return
	}
	p.data[n] = b
	pg.writing, pg.dirty = true, false
	p.writes++
	p.touched(n)
	p.writeBacks = append(p.writeBacks, n)
}

// writeDone is the completion of a WRITE.
func (p *pager) writeDone(n int64, err error, now time.Time) {
	pg := &p.pages[n]
	p.freeBuffer(n)
	p.writes--
	pg.writing = false
	if err != nil {
		p.stats.WriteErrors++
		pg.dirty = true
		p.writeErr, p.retryAt = err, now.Add(retryWrite)
		return
	}
	p.writeErr = nil
	p.stats.PageOuts++
	if !pg.stored {
		pg.stored = true
		p.stats.Stored++
	}
	if !pg.dirty && !pg.referenced && pg.pins == 0 && n != p.keep && len(p.free) < p.threshold+len(p.queue) {
		p.drop(n)
	}
	p.evict(now)
}

// drop frees a resident page that is not dirty.
func (p *pager) drop(n int64) {
	pg := &p.pages[n]
	if p.mem.drop(n) != nil {
		return
	}
	pg.prefetched, pg.marker = false, false
	p.stats.Drops++
	p.freeSlot(n)
	pg.state = stateFresh // it was never written, by anybody
	if pg.stored {
		pg.state = stateRemote
	}
}
