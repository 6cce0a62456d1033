// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"errors"
	"slices"
	"time"
)

// repair copies pages that have too few copies, and those of servers that want to be rid of them.
func (t *table) repair(now time.Duration) {
	if now < t.paused {
		return
	}
	for number := range t.moves {
		if t.repairs >= maxRepairs {
			return
		}
		p := t.pages[number]
		if !t.wantsCopy(p) {
			delete(t.moves, number)
			continue
		}
		if p.busy {
			continue // release has it looked at again, by the tick that follows
		}
		if t.roomiest(p.copies) == nil {
			t.paused = now + repairPause
			return
		}
		p.busy = true
		t.repairs++
		t.transfer(&op{page: number, p: p}, p.copies[0], false)
	}
}

// wantsCopy reports whether a page needs another copy, and can have one.
func (t *table) wantsCopy(p *page) bool {
	return p != nil && len(p.copies) > 0 && (len(p.leaving) > 0 || len(p.copies) < t.needed())
}

// repairDone notes a step of a repair: the page was read, or written to another server.
func (t *table) repairDone(now time.Duration, x *transfer, err error) {
	o, p := x.op, x.op.p
	to := t.roomiest(p.copies)
	switch {
	case err != nil && !x.write && !errors.Is(err, ErrNoRoom):
		t.drop(o.page, p, x.server)
	case err == nil && !x.write && to != nil:
		to.room--
		t.transfer(o, to, true)
		return
	case err == nil && x.write && t.reachable(x.server):
		t.add(p, x.server)
		t.counts.Repaired++
		t.leave(o.page, p)
	}
	if err != nil {
		t.paused = now + repairPause
	}
	t.repairs--
	t.release(now, p)
}

// leave drops a copy that its server wants to be rid of, if there are enough others.
func (t *table) leave(number int64, p *page) {
	for _, s := range slices.Clone(p.leaving) {
		if len(p.copies) > t.copies {
			p.copies = slices.DeleteFunc(p.copies, func(x *server) bool { return x == s })
			p.leaving = slices.DeleteFunc(p.leaving, func(x *server) bool { return x == s })
			s.stored--
			t.do(action{kind: actForget, page: number, server: s.name})
		}
	}
}
