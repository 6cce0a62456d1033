// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// model is the world of a table: servers with pages, a network that answers in any order, and a user who
// knows what was written.
type model struct {
	t       *testing.T
	rnd     *rand.Rand
	now     time.Duration
	table   *table
	servers map[string]*fake
	flying  []flying
	ops     map[uint64]*asked
	lastOp  uint64
	content map[int64]uint64 // content that the user expects; 0: any, since a WRITE has failed
	last    uint64           // content
	failed  map[error]int
	silent  map[string]bool // servers that do not answer
}

type fake struct {
	room  int
	pages map[int64]uint64
}

// flying is a transfer that was not answered yet.
type flying struct {
	action
	server *fake
	value  uint64 // value of a WRITE
}

type asked struct {
	page  int64
	write bool
	value uint64
	got   map[uint64]uint64 // content by transfer
}

func newModel(t *testing.T, copies int, seed uint64) *model {
	return &model{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), table: newTable(copies), servers: map[string]*fake{}, ops: map[uint64]*asked{},
		content: map[int64]uint64{}, failed: map[error]int{}, silent: map[string]bool{},
	}
}

// up starts a server without pages.
func (m *model) up(name string, room int) {
	m.servers[name] = &fake{room: room, pages: map[int64]uint64{}}
	m.run(m.table.up(m.now, name))
	m.run(m.table.room(m.now, name, room))
}

// kill ends a server. Its transfers fail.
func (m *model) kill(name string) {
	delete(m.servers, name)
	m.run(m.table.down(m.now, name))
}

// run does what the table wants.
func (m *model) run(list []action) {
	for _, a := range list {
		switch a.kind {
		case actFinish:
			m.finish(a)
		case actForget:
			if s := m.servers[a.server]; s != nil {
				delete(s.pages, a.page)
				s.room++
			}
		default:
			f := flying{action: a, server: m.servers[a.server]}
			if o := m.ops[a.op]; a.kind == actWrite && a.op != 0 {
				f.value = o.value
			} else if a.kind == actWrite {
				f.value = m.ops[0].got[uint64(a.page)]
			}
			m.flying = append(m.flying, f)
		}
	}
}

func (m *model) finish(a action) {
	o := m.ops[a.op]
	if o == nil {
		m.t.Fatalf("request %d is completed, and is not outstanding", a.op)
	}
	delete(m.ops, a.op)
	for known := range m.failed {
		if errors.Is(a.err, known) {
			m.failed[known]++
		}
	}
	switch {
	case o.write && a.err == nil:
		m.content[o.page] = o.value
	case o.write:
		m.content[o.page] = 0
	case a.err == nil:
		if want := m.content[o.page]; want != 0 && o.got[a.transfer] != want {
			m.t.Fatalf("page %d has %d, want %d", o.page, o.got[a.transfer], want)
		}
	}
}

// begin begins a request of a page that has none outstanding.
func (m *model) begin(page int64, write bool) {
	for _, o := range m.ops {
		if o.page == page && o != m.ops[0] {
			return
		}
	}
	m.lastOp++
	m.last++
	m.ops[m.lastOp] = &asked{page: page, write: write, value: m.last, got: map[uint64]uint64{}}
	m.run(m.table.begin(m.now, m.lastOp, page, write))
}

// answer answers one transfer.
func (m *model) answer(i int) {
	f := m.flying[i]
	m.flying = slices.Delete(m.flying, i, i+1)
	var err error
	switch s := f.server; {
	case s == nil || m.servers[f.action.server] != s:
		err = errors.New("the connection has ended")
	case f.kind == actWrite:
		if _, there := s.pages[f.page]; !there && s.room == 0 {
			err = ErrNoRoom
			break
		} else if !there {
			s.room--
		}
		s.pages[f.page] = f.value
	default:
		value, there := s.pages[f.page]
		if err = ErrLost; there {
			err = nil
		}
		if o := m.ops[f.op]; o != nil && f.op != 0 {
			o.got[f.transfer] = value
		} else if f.op == 0 {
			if m.ops[0] == nil {
				m.ops[0] = &asked{page: -1, got: map[uint64]uint64{}}
			}
			m.ops[0].got[uint64(f.page)] = value
		}
	}
	m.run(m.table.done(m.now, f.transfer, err))
}

// settle answers until nothing is outstanding.
func (m *model) settle() {
	for range 100_000 {
		m.now += time.Millisecond
		m.run(m.table.tick(m.now))
		var open []int
		for i, f := range m.flying {
			if !m.silent[f.action.server] {
				open = append(open, i)
			}
		}
		if len(open) > 0 {
			m.answer(open[m.rnd.IntN(len(open))])
			continue
		}
		if _, more := m.table.next(); !more || m.table.paused > m.now {
			return
		}
	}
	m.t.Fatal("it does not come to rest")
}

// do has one request executed, and returns whether it ends with a known error.
func (m *model) do(page int64, write bool, known error) bool {
	m.failed = map[error]int{known: 0}
	m.begin(page, write)
	m.settle()
	return m.failed[known] > 0
}

// copies returns the servers that have the last content of a page.
func (m *model) copies(page int64) (names []string) {
	for name, s := range m.servers {
		if v, ok := s.pages[page]; ok && v == m.content[page] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// A page goes to the server with the most room.
func TestSpread(t *testing.T) {
	m := newModel(t, 1, 1)
	m.up("a", 2)
	m.up("b", 6)
	for page := range int64(8) {
		m.begin(page, true)
		m.settle()
		if b := len(m.servers["b"].pages); page == 3 && b != 4 {
			t.Errorf("%d of 4 pages are where there is more room", b)
		}
	}
	if a, b := len(m.servers["a"].pages), len(m.servers["b"].pages); a != 2 || b != 6 {
		t.Errorf("%d and %d pages, want 2 and 6", a, b)
	}
	if !m.do(8, true, ErrNoRoom) {
		t.Error("a WRITE without room succeeds")
	}
	if !m.do(9, false, ErrNoPage) {
		t.Error("a page that was never written is read")
	}
}

// Without a mirror, the pages of a server that is gone are lost, and say so until they are written again.
func TestLost(t *testing.T) {
	m := newModel(t, 1, 1)
	m.up("a", 8)
	m.begin(1, true)
	m.settle()
	m.up("b", 8)
	m.kill("a")
	if !m.do(1, false, ErrLost) {
		t.Error("a page that is lost is read")
	}
	if m.table.counts.Lost != 1 {
		t.Errorf("%+v", m.table.counts)
	}
	if m.do(1, true, ErrLost) || m.do(1, false, ErrLost) {
		t.Error("a page that was written again is lost")
	}
}

// With a mirror, a WRITE waits for both servers, one serves when the other is gone, and the second copy is made
// again at a third server.
func TestMirror(t *testing.T) {
	m := newModel(t, 2, 1)
	m.up("a", 8)
	m.up("b", 8)
	m.begin(1, true)
	m.answer(0)
	if len(m.ops) != 1 {
		t.Fatal("a WRITE is complete with one copy")
	}
	m.settle()
	if got := m.copies(1); !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("copies at %v", got)
	}
	m.kill("a")
	if m.do(1, false, ErrLost) || m.do(2, true, ErrNoRoom) || m.do(1, true, ErrNoRoom) {
		t.Error("one server does not serve alone")
	}
	m.up("c", 8)
	m.settle()
	for _, page := range []int64{1, 2} {
		if got := m.copies(page); !slices.Equal(got, []string{"b", "c"}) {
			t.Errorf("page %d: copies at %v after the repair", page, got)
		}
	}
	m.kill("b")
	if m.do(1, false, ErrLost) {
		t.Error("the mirror that was made again is not used")
	}
}

// A mirror that has no room is not given up while its server is there: the WRITE fails, and what was written
// before is still read.
func TestMirrorWithoutRoom(t *testing.T) {
	m := newModel(t, 2, 1)
	m.up("a", 8)
	m.up("b", 1)
	if m.do(1, true, ErrNoRoom) || !m.do(2, true, ErrNoRoom) {
		t.Error("two copies find room once, and one copy was enough, or two were not possible")
	}
	if m.do(1, true, ErrNoRoom) || m.do(1, false, ErrLost) {
		t.Error("a page that has its room is not written again")
	}
	if m.table.wanted() < 2 {
		t.Errorf("%d pages are wanted: what was refused does not count", m.table.wanted())
	}
}

// What is wanted is counted in pages: attempts without success, and those while no server is there, count nothing
// more.
func TestWanted(t *testing.T) {
	m := newModel(t, 1, 1)
	for page := range int64(100) {
		m.do(page, true, ErrNoServer)
	}
	if n := m.table.wanted(); n != 0 {
		t.Errorf("%d pages are wanted, and no server could have refused one", n)
	}
	m.up("a", 1)
	m.do(1, true, ErrNoRoom)
	for range 100 {
		m.do(2, true, ErrNoRoom)
		m.do(3, true, ErrNoRoom)
	}
	if n := m.table.wanted(); n != 3 {
		t.Errorf("%d pages are wanted, want 1 that is stored and 2 that were refused", n)
	}
	m.servers["a"].room = 8
	m.run(m.table.lost(m.now, "a", []int64{1}))
	delete(m.servers["a"].pages, 1)
	m.do(1, true, ErrNoRoom)
	if n := m.table.wanted(); n != 3 {
		t.Errorf("%d pages are wanted, want 3: a page that is refused when it is written again counts once", n)
	}
	m.run(m.table.room(m.now, "a", 8))
	if n := m.table.wanted(); n != 1 {
		t.Errorf("%d pages are wanted after a lease, want that of before", n)
	}
}

// A server has less room than the table knows: the page goes elsewhere, and a mirror without a second place is
// an error.
func TestOtherPlace(t *testing.T) {
	for copies := 1; copies <= 2; copies++ {
		m := newModel(t, copies, 1)
		m.up("a", 9)
		m.up("b", 8)
		m.up("c", 7)
		m.servers["a"].room = 0
		if m.do(1, true, ErrNoRoom) || len(m.copies(1)) != copies {
			t.Errorf("%d copies: at %v", copies, m.copies(1))
		}
	}
	m := newModel(t, 2, 1)
	m.up("a", 8)
	m.up("b", 8)
	m.servers["a"].room = 0
	if !m.do(1, true, ErrNoRoom) {
		t.Error("a WRITE succeeds with one copy, and both servers are there")
	}
}

// A copy that is gone without notice: the READ is answered by the other server, and the copy is made again.
func TestCopyGone(t *testing.T) {
	m := newModel(t, 2, 1)
	m.up("a", 8)
	m.up("b", 8)
	for page := range int64(4) {
		m.begin(page, true)
		m.settle()
	}
	clear(m.servers["a"].pages)
	for page := range int64(4) {
		if m.do(page, false, ErrLost) {
			t.Errorf("page %d is lost, and a server has it", page)
		}
		m.do(page, false, ErrLost) // by the other one, in turn
	}
}

// The connection of a server fails, which a transfer notes first: the WRITE is complete with one copy.
func TestConnectionFails(t *testing.T) {
	m := newModel(t, 2, 1)
	m.up("a", 8)
	m.up("b", 8)
	delete(m.servers, "a")
	m.begin(1, true)
	m.settle()
	if got := m.copies(1); m.content[1] == 0 || !slices.Equal(got, []string{"b"}) {
		t.Errorf("copies at %v", got)
	}
	if m.table.server("a") != nil {
		t.Error("the server whose connection has failed is still used")
	}
}

// The late answer to a READ says nothing of what was written since.
func TestLateAnswer(t *testing.T) {
	m := newModel(t, 2, 1)
	m.up("a", 8)
	m.up("b", 8)
	m.begin(1, true)
	m.settle()
	m.begin(1, false)
	late := m.flying[0]
	m.flying = nil
	m.now += patienceOfRead
	m.run(m.table.tick(m.now))
	m.settle() // the other server
	m.begin(1, true)
	m.settle()
	m.run(m.table.done(m.now, late.transfer, ErrLost))
	if n := len(m.table.pages[1].copies); n != 2 {
		t.Errorf("%d copies count, want 2", n)
	}
}

// A server that does not answer: the other one is asked after a time, and its answer counts.
func TestLateRead(t *testing.T) {
	m := newModel(t, 2, 1)
	m.up("a", 8)
	m.up("b", 8)
	for page := range int64(4) {
		m.begin(page, true)
		m.settle()
	}
	m.silent["a"] = true
	for page := range int64(4) {
		m.begin(page, false)
		m.now += patienceOfRead
		m.settle()
	}
	if len(m.ops) > 0 || m.table.counts.Late == 0 {
		t.Fatalf("%d READs wait for a server that does not answer; %+v", len(m.ops), m.table.counts)
	}
	m.silent["a"] = false // the late answers change nothing
	m.settle()
}

// Pages of a server that wants to be rid of them move to another one.
func TestSqueezed(t *testing.T) {
	for copies := 1; copies <= 2; copies++ {
		m := newModel(t, copies, 1)
		m.up("a", 8)
		m.up("b", 7)
		for page := range int64(4) {
			m.begin(page, true)
			m.settle()
		}
		m.up("c", 100)
		m.run(m.table.room(m.now, "a", 0))
		m.run(m.table.squeezed(m.now, "a", []int64{0, 1, 2, 3}))
		m.settle()
		if n := len(m.servers["a"].pages); n != 0 {
			t.Errorf("%d copies: %d pages are left", copies, n)
		}
		for page := range int64(4) {
			if got := m.copies(page); len(got) != copies {
				t.Errorf("%d copies: page %d is at %v", copies, page, got)
			}
		}
	}
}

// Whatever happens, a READ returns what was written last, or an error; and with a mirror, no page is lost
// while one server at a time is killed and repairs can complete.
func TestAnyOrder(t *testing.T) {
	for seed := range uint64(300) {
		copies := int(seed%2) + 1
		m := newModel(t, copies, seed)
		names := []string{"a", "b", "c"}
		for _, n := range names {
			m.up(n, 20+m.rnd.IntN(20))
		}
		for range 400 {
			m.now += time.Duration(m.rnd.IntN(20)) * time.Millisecond
			page := m.rnd.Int64N(16)
			name := names[m.rnd.IntN(3)]
			switch x := m.rnd.IntN(100); {
			case x < 25:
				m.begin(page, true)
			case x < 50:
				m.begin(page, false)
			case x < 90 && len(m.flying) > 0:
				m.answer(m.rnd.IntN(len(m.flying)))
			case x < 92:
				m.run(m.table.squeezed(m.now, name, []int64{page}))
			case x < 94 && copies == 1 && m.servers[name] != nil:
				if s := m.servers[name]; s.pages[page] != 0 { // its slab has ended
					delete(s.pages, page)
					s.room++
					m.run(m.table.lost(m.now, name, []int64{page}))
				}
			case x < 96:
				m.settle()
				m.now += repairPause
				m.settle()
				m.kill(name)
				m.settle()
				m.up(name, 20+m.rnd.IntN(20))
				m.now += repairPause
				m.settle()
			default:
				m.run(m.table.tick(m.now))
			}
		}
		m.settle()
		delete(m.ops, 0)
		if len(m.ops) > 0 || len(m.table.transfers) > 0 || m.table.repairs != 0 {
			t.Fatalf("seed %d: %d requests, %d transfers and %d repairs never end", seed, len(m.ops), len(m.table.transfers), m.table.repairs)
		}
		if copies == 2 && m.table.counts.Lost > 0 {
			t.Fatalf("seed %d: with a mirror, %d pages are lost", seed, m.table.counts.Lost)
		}
		for name, s := range m.servers {
			if x := m.table.server(name); x.stored != len(s.pages) {
				t.Fatalf("seed %d: server %s has %d pages, and %d are counted", seed, name, len(s.pages), x.stored)
			}
		}
	}
}

func TestSplit(t *testing.T) {
	for _, x := range []struct {
		demand uint64
		list   []share
		mirror bool
		want   []uint64
	}{
		{100, []share{{free: 1000}}, false, []uint64{100}},
		{100, []share{{free: 999}, {free: 2999}}, false, []uint64{25, 75}},
		{100, []share{{leased: 999}, {free: 2999}}, false, []uint64{25, 75}},
		{100, []share{{stored: 60, leased: 999}, {free: 2999}}, false, []uint64{60, 75}}, // what is stored needs its place
		{100, []share{{free: 10}, {free: 1000}}, true, []uint64{50, 50}},                 // one copy of each page
		{90, []share{{free: 99}, {free: 99}, {free: 100_000}}, true, []uint64{23, 23, 45}},
		{100, []share{{}, {}}, false, []uint64{50, 50}}, // all are full: both learn it
		{100, nil, false, []uint64{}},
	} {
		if got := split(x.demand, x.list, x.mirror); !slices.Equal(got, x.want) {
			t.Errorf("%+v: %v", x, got)
		}
	}
}
