// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"errors"
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/mempool/pages"
)

// Errors of pages. They are those of package pages, so that a program need not know where its pages are.
var (
	ErrLost   = pages.ErrLost
	ErrNoPage = pages.ErrNoPage
	ErrNoRoom = pages.ErrNoRoom
)

// The times of a table.
const (
	// patienceOfRead is how long a READ waits for a server, before a mirror is asked as well.
	patienceOfRead = 100 * time.Millisecond
	// repairPause is how long repairs stop after one has failed.
	repairPause = 100 * time.Millisecond
	// maxRepairs is how many pages are copied at the same time.
	maxRepairs = 16
)

// kind says what an action does.
type kind uint8

const (
	actRead   kind = iota // read the page from Server
	actWrite              // write it there
	actFinish             // complete the request Op with Err; Transfer has the data of a READ
	actForget             // the page is no longer needed at Server
)

// action is what the caller of a table must do.
type action struct {
	kind     kind
	page     int64
	server   string
	op       uint64
	transfer uint64 // transfer of actRead and actWrite, for done; with actFinish the READ that was answered
	err      error
}

// table has the servers and pages. Calls must not overlap. Each returns the actions that follow. Times are
// durations since any fixed moment.
type table struct {
	copies    int // 1, or 2 with a mirror
	servers   []*server
	pages     map[int64]*page
	moves     map[int64]bool // pages that need another copy, or another place
	transfers map[uint64]*transfer
	reads     []*op // waiting for an answer, in the order of their deadlines
	repairs   int
	paused    time.Duration  // no repairs before
	last      uint64         // number of a transfer
	refused   map[int64]bool // pages without room since the last lease that are not in pages
	counts    Counts
	out       []action
}

// Counts are events of a store.
type Counts struct {
	Repaired uint64 `json:"repaired_pages"` // copied to another server
	Lost     uint64 `json:"lost_pages"`     // pages that had no copy any more
	Late     uint64 `json:"late_reads"`     // READs for which a second server was asked
}

// server is a server that can be reached.
type server struct {
	name   string
	room   int // pages that find room, as far as known
	stored int // pages that have a copy here
}

// page is a page that was written.
type page struct {
	copies  []*server // servers which have the last content
	leaving []*server // servers of copies whose slab must be returned
	busy    bool      // a request or a repair is under way
	writing bool      // the request in flight is a WRITE
	version uint64    // version of the content
	waiting []*op
}

// op is a request of the user, or a repair (number 0).
type op struct {
	number   uint64
	page     int64
	write    bool
	p        *page
	tried    []*server
	pending  int
	deadline time.Duration // deadline of a READ
	err      error         // error of the last transfer
}

// transfer is a READ or WRITE of one server.
type transfer struct {
	op      *op
	server  *server
	version uint64
	write   bool
}

func newTable(copies int) *table {
	return &table{copies: copies, pages: map[int64]*page{}, moves: map[int64]bool{}, transfers: map[uint64]*transfer{}, refused: map[int64]bool{}}
}

func (t *table) server(name string) *server {
	for _, s := range t.servers {
		if s.name == name {
			return s
		}
	}
	return nil
}

// up notes that a server can be reached. It has no pages.
func (t *table) up(now time.Duration, name string) []action {
	if t.server(name) == nil {
		t.servers = append(t.servers, &server{name: name})
		t.markShort()
	}
	return t.tick(now)
}

// room notes how many pages find room at a server, after a lease.
func (t *table) room(now time.Duration, name string, pages int) []action {
	if s := t.server(name); s != nil {
		s.room = pages
		clear(t.refused)
		t.paused = min(t.paused, now)
	}
	return t.tick(now)
}

// down notes that a server and its copies are gone.
func (t *table) down(now time.Duration, name string) []action {
	t.remove(t.server(name))
	return t.tick(now)
}

// remove takes a server out, if it is still there.
func (t *table) remove(s *server) {
	if !t.reachable(s) {
		return
	}
	t.servers = slices.DeleteFunc(t.servers, func(x *server) bool { return x == s })
	for number, p := range t.pages {
		t.drop(number, p, s)
	}
}

// lost notes that a server no longer has pages, and squeezed that it soon will not, unless they are moved.
func (t *table) lost(now time.Duration, name string, list []int64) []action {
	s := t.server(name)
	for _, number := range list {
		if p := t.pages[number]; p != nil && s != nil {
			t.drop(number, p, s)
		}
	}
	return t.tick(now)
}

func (t *table) squeezed(now time.Duration, name string, list []int64) []action {
	s := t.server(name)
	for _, number := range list {
		p := t.pages[number]
		if p != nil && slices.Contains(p.copies, s) && !slices.Contains(p.leaving, s) {
			p.leaving = append(p.leaving, s)
			t.moves[number] = true
		}
	}
	return t.tick(now)
}

// drop removes a copy.
func (t *table) drop(number int64, p *page, s *server) {
	i := slices.Index(p.copies, s)
	if i < 0 {
		return
	}
	p.copies = slices.Delete(p.copies, i, i+1)
	p.leaving = slices.DeleteFunc(p.leaving, func(x *server) bool { return x == s })
	s.stored--
	if len(p.copies) == 0 && !p.writing {
		t.counts.Lost++
	}
	if len(p.copies) > 0 && t.copies > 1 {
		t.moves[number] = true
	}
}

// add notes that a server has the last content of a page.
func (t *table) add(p *page, s *server) {
	p.copies = append(p.copies, s)
	s.stored++
}

// markShort has pages with fewer copies than possible repaired.
func (t *table) markShort() {
	if t.copies == 1 || len(t.servers) < t.copies {
		return
	}
	for number, p := range t.pages {
		if len(p.copies) > 0 && len(p.copies) < t.copies {
			t.moves[number] = true
		}
	}
}

// begin begins a request. op is a number of the caller, not 0.
func (t *table) begin(now time.Duration, number uint64, at int64, write bool) []action {
	p := t.pages[at]
	if p == nil && !write {
		t.finish(&op{number: number, page: at}, 0, ErrNoPage)
		return t.take()
	}
	if p == nil {
		p = &page{}
		t.pages[at] = p
	}
	t.start(now, &op{number: number, page: at, write: write, p: p})
	return t.take()
}

// start starts a request, when no other one of the page is under way.
func (t *table) start(now time.Duration, o *op) {
	switch {
	case o.p.busy:
		o.p.waiting = append(o.p.waiting, o)
	case o.write:
		t.startWrite(o)
	default:
		t.startRead(now, o)
	}
}

// finish completes a request, and lets go of its page.
func (t *table) finish(o *op, answered uint64, err error) {
	t.do(action{kind: actFinish, page: o.page, op: o.number, transfer: answered, err: err})
}

// release begins what waits for a page.
func (t *table) release(now time.Duration, p *page) {
	p.busy, p.writing = false, false
	for len(p.waiting) > 0 && !p.busy {
		next := p.waiting[0]
		p.waiting = p.waiting[1:]
		t.start(now, next)
	}
}

// done notes the end of a transfer.
func (t *table) done(now time.Duration, number uint64, err error) []action {
	x := t.transfers[number]
	if x == nil {
		return nil
	}
	delete(t.transfers, number)
	switch {
	case err == nil, errors.Is(err, ErrLost), errors.Is(err, ErrNoPage):
	case errors.Is(err, ErrNoRoom):
		if x.write { // of a READ: there is no memory for its data here
			x.server.room = 0
		}
	default: // any other failure ends the connection
		t.remove(x.server)
	}
	switch {
	case x.op.number == 0:
		t.repairDone(now, x, err)
	case x.write:
		t.writeDone(now, x, err)
	default:
		t.readDone(now, x, number, err)
	}
	return t.tick(now)
}

// transfer has a page read or written.
func (t *table) transfer(o *op, s *server, write bool) {
	t.last++
	t.transfers[t.last] = &transfer{o, s, o.p.version, write}
	o.tried = append(o.tried, s)
	o.pending++
	k := actRead
	if write {
		k = actWrite
	}
	t.do(action{kind: k, page: o.page, server: s.name, op: o.number, transfer: t.last})
}

// wanted returns how many pages want to be stored.
func (t *table) wanted() int { return len(t.pages) + len(t.refused) }

// reachable reports whether a server is still there.
func (t *table) reachable(s *server) bool { return slices.Contains(t.servers, s) }

// roomiest returns the server with the most room, without some.
func (t *table) roomiest(without ...[]*server) (best *server) {
	for _, s := range t.servers {
		if s.room <= 0 || slices.ContainsFunc(without, func(l []*server) bool { return slices.Contains(l, s) }) {
			continue
		}
		if best == nil || s.room > best.room {
			best = s
		}
	}
	return best
}

// tick does what is due.
func (t *table) tick(now time.Duration) []action {
	t.askMirrors(now)
	t.repair(now)
	return t.take()
}

// next returns when tick has something to do.
func (t *table) next() (at time.Duration, ok bool) {
	for _, o := range t.reads {
		if !ok || o.deadline < at {
			at, ok = o.deadline, true
		}
	}
	if len(t.moves) > 0 && (!ok || t.paused < at) && t.repairs < maxRepairs {
		at, ok = t.paused, true
	}
	return at, ok
}

func (t *table) do(a action) { t.out = append(t.out, a) }

func (t *table) take() []action {
	out := t.out
	t.out = nil
	return out
}
