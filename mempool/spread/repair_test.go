// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/mempool/vmm"
)

// slow is a place whose requests wait until the test answers them.
type slow struct {
	reads, writes []vmm.Request
	placed        []int64
}

func (s *slow) ReadPages(list []vmm.Request)  { s.reads = append(s.reads, list...) }
func (s *slow) WritePages(list []vmm.Request) { s.writes = append(s.writes, list...) }
func (s *slow) Forget(...int64)               {}
func (s *slow) SetDemand(uint64)              {}
func (s *slow) Placed(number int64) bool      { return slices.Contains(s.placed, number) }
func (s *slow) Close()                        {}

// repairing is a store with the slow servers a, b and c. Page 1 is at a and b, and a wants to be rid of it. It has
// buffers for some repairs.
func repairing(buffersOfPages int) (*Store, map[string]*slow) {
	s := &Store{
		began: time.Now(), wake: make(chan struct{}, 1), table: newTable(2), links: map[string]*link{}, ops: map[uint64]request{}, flying: map[uint64]flight{},
		copied: map[int64][]byte{}, c: Config{Mirror: true, PageBytes: 8},
	}
	s.pageBytes = s.c.PageBytes
	for range buffersOfPages {
		s.spare = append(s.spare, make([]byte, s.pageBytes))
	}
	places := map[string]*slow{"a": {}, "b": {}, "c": {}}
	for _, name := range []string{"a", "b", "c"} {
		s.links[name] = &link{s: s, name: name, pages: places[name], stop: func(error) {}}
		s.table.up(0, name)
	}
	s.table.room(0, "a", 8)
	s.table.room(0, "b", 8)
	s.table.begin(0, 1, 1, true)
	s.table.done(0, 1, nil)
	s.table.done(0, 2, nil)
	s.table.room(0, "c", 9)
	return s, places
}

// The connection of a repair fails, and the next repair of the page begins before the end of the first one was
// dealt with: the buffer of the second one stays its own.
func TestRepairsOfOnePageOverlap(t *testing.T) {
	s, places := repairing(2)
	s.links["a"].stop = func(error) { // the repair has ended, and done has not returned
		s.change(func(x *table, now time.Duration) []action { return x.tick(now + time.Hour) })
	}
	s.change(func(x *table, now time.Duration) []action { return x.squeezed(now, "a", []int64{1}) })
	if len(places["a"].reads) != 1 {
		t.Fatalf("%d READs for the first repair", len(places["a"].reads))
	}
	places["a"].reads[0].Done(errors.New("the connection has ended"))
	if len(places["b"].reads) != 1 {
		t.Fatalf("%d READs for the second repair", len(places["b"].reads))
	}
	read := places["b"].reads[0]
	for _, b := range s.spare {
		if &b[0] == &read.Data[0] {
			t.Fatal("the buffer of a READ in flight is spare")
		}
	}
	copy(read.Data, "content!")
	read.Done(nil)
	if w := places["c"].writes; len(w) != 1 || string(w[0].Data) != "content!" {
		t.Fatalf("the second repair writes %+v", w)
	}
	places["c"].writes[0].Done(nil)
	if len(s.spare) != 2 || len(s.copied) != 0 || len(s.flying) != 0 {
		t.Errorf("%d spare buffers, %d of repairs, %d transfers after all repairs", len(s.spare), len(s.copied), len(s.flying))
	}
}

// This process has no memory for the data of a READ: that says nothing of the server and its copies.
func TestNoMemoryForRead(t *testing.T) {
	noMemory := fmt.Errorf("%w: no memory", ErrNoRoom)
	for _, x := range []struct {
		name  string
		begin func(*model)
	}{
		{"READ", func(m *model) { m.begin(1, false) }},
		{"repair", func(m *model) { m.run(m.table.squeezed(m.now, "a", []int64{1})) }},
	} {
		m := newModel(t, 2, 1)
		m.up("a", 8)
		m.up("b", 8)
		m.begin(1, true)
		m.settle()
		m.up("c", 8)
		x.begin(m)
		for len(m.flying) > 0 {
			f := m.flying[0]
			m.flying = m.flying[1:]
			if f.kind != actRead {
				t.Fatalf("%s: %+v, and nothing was read", x.name, f.action)
			}
			m.run(m.table.done(m.now, f.transfer, noMemory))
		}
		if n := len(m.table.pages[1].copies); n != 2 || m.table.counts.Lost != 0 {
			t.Errorf("%s: %d copies count, want 2; %+v", x.name, n, m.table.counts)
		}
		if room := m.table.server("a").room; room != 7 {
			t.Errorf("%s: room for %d pages, want 7", x.name, room)
		}
		m.now += repairPause
		m.settle()
		if len(m.ops) > 1 || m.do(1, false, ErrNoRoom) || len(m.copies(1)) < 2 {
			t.Errorf("%s: with memory again, copies at %v", x.name, m.copies(1))
		}
	}
}

// The news that the slab of a page has ended comes when the page was written again, to another slab of the same
// server: that copy counts. A page that was not written again is lost.
func TestLostAfterWrite(t *testing.T) {
	s, places := repairing(4)
	s.table.begin(0, 2, 2, true)
	s.table.done(0, 3, nil)
	s.table.done(0, 4, nil)
	a := s.links["a"]
	a.ready = true
	places["a"].placed = []int64{1}
	had := slices.Contains(s.table.pages[2].copies, s.table.server("a"))
	a.Lost([]int64{1, 2})
	if !slices.Contains(s.table.pages[1].copies, s.table.server("a")) {
		t.Error("the page that was written again has lost its copy")
	}
	if !had || slices.Contains(s.table.pages[2].copies, s.table.server("a")) {
		t.Error("the copy of the page whose slab has ended counts")
	}
}
