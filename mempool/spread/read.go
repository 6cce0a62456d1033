// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"errors"
	"slices"
	"time"
)

// startRead asks a server that has the last content.
func (t *table) startRead(now time.Duration, o *op) {
	if len(o.p.copies) == 0 {
		t.finish(o, 0, ErrLost)
		return
	}
	o.p.busy = true
	t.transfer(o, o.p.copies[int(uint64(o.page)%uint64(len(o.p.copies)))], false)
	o.deadline = now + patienceOfRead
	t.reads = append(t.reads, o)
}

// askNext asks another server that has the last content. False: there is none.
func (t *table) askNext(o *op) bool {
	for _, s := range o.p.copies {
		if !slices.Contains(o.tried, s) {
			t.transfer(o, s, false)
			return true
		}
	}
	return false
}

// askMirrors asks another server for what was not answered in time.
func (t *table) askMirrors(now time.Duration) {
	for len(t.reads) > 0 && t.reads[0].deadline <= now {
		o := t.reads[0]
		t.reads = t.reads[1:]
		if t.askNext(o) {
			t.counts.Late++
		}
	}
}

// readDone notes the answer of a server to a READ. The first that has the page counts. The content of a late
// one is not used: the page may have been written since.
func (t *table) readDone(now time.Duration, x *transfer, number uint64, err error) {
	o, p := x.op, x.op.p
	o.pending--
	if err != nil && !errors.Is(err, ErrNoRoom) && x.version == p.version {
		t.drop(o.page, p, x.server)
	}
	if o.number == finished {
		return
	}
	if err != nil {
		o.err = err
		if o.pending > 0 || t.askNext(o) {
			return
		}
		number = 0
	}
	t.reads = slices.DeleteFunc(t.reads, func(r *op) bool { return r == o })
	t.finish(o, number, err)
	o.number = finished
	t.release(now, p)
}

// finished is the number of a request that was answered.
const finished = 1<<64 - 1
