// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrNoServer: no server can be reached.
var ErrNoServer = errors.New("no server of the pool can be reached")

// needed returns how many copies a WRITE needs now: a mirror needs two servers that can be reached.
func (t *table) needed() int { return min(t.copies, max(len(t.servers), 1)) }

// startWrite writes a page to the servers that have it, and to others until there are enough. From now on no
// copy has the last content, until its WRITE is acknowledged.
func (t *table) startWrite(o *op) {
	p := o.p
	targets := slices.DeleteFunc(slices.Clone(p.copies), func(s *server) bool { return slices.Contains(p.leaving, s) })
	for len(targets) < t.needed() {
		s := t.roomiest(targets, p.copies)
		if s == nil {
			break
		}
		s.room--
		targets = append(targets, s)
	}
	for _, s := range p.leaving { // where nobody else has room, they are better than nothing
		if len(targets) < t.needed() {
			targets = append(targets, s)
		}
	}
	if len(targets) < t.needed() {
		t.finish(o, 0, t.refusal(len(targets)))
		if len(p.copies) == 0 && len(p.waiting) == 0 && p.version == 0 {
			delete(t.pages, o.page) // it was never written
			if len(t.servers) > 0 {
				t.refused[o.page] = true
			}
		}
		return
	}
	delete(t.refused, o.page)
	for _, s := range p.copies {
		s.stored--
		if !slices.Contains(targets, s) {
			t.do(action{kind: actForget, page: o.page, server: s.name})
		}
	}
	p.copies, p.leaving = nil, nil
	p.version++
	p.busy, p.writing = true, true
	for _, s := range targets {
		t.transfer(o, s, true)
	}
}

// refusal is the error of a WRITE for which there is no room.
func (t *table) refusal(found int) error {
	switch {
	case len(t.servers) == 0:
		return ErrNoServer
	case found > 0:
		return fmt.Errorf("%w: for the mirror", ErrNoRoom)
	}
	return ErrNoRoom
}

// writeDone notes the answer of a server to a WRITE. If it has failed, another server is tried.
func (t *table) writeDone(now time.Duration, x *transfer, err error) {
	o, p := x.op, x.op.p
	o.pending--
	switch {
	case err == nil && t.reachable(x.server):
		t.add(p, x.server)
	case err == nil:
		o.err = ErrNoServer
	default:
		o.err = err
	}
	if len(p.copies)+o.pending < t.needed() {
		if s := t.roomiest(o.tried); s != nil {
			s.room--
			t.transfer(o, s, true)
		}
	}
	if o.pending > 0 {
		return
	}
	switch {
	case len(p.copies) >= t.needed():
		err = nil
	case o.err == nil || errors.Is(o.err, ErrNoRoom):
		err = t.refusal(len(p.copies))
	default:
		err = o.err
	}
	if len(p.copies) == 0 && p.version > 1 {
		t.counts.Lost++
	}
	if len(p.copies) > 0 && len(p.copies) < t.copies {
		t.moves[o.page] = true
	}
	t.finish(o, 0, err)
	t.release(now, p)
}
