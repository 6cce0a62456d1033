// SPDX-License-Identifier: Apache-2.0

package poolstore

import (
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/vmm"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
)

// leased returns a lease of slabs of two pages; those with a negative number have to be returned.
func leased(numbers ...int) (l node.Lease) {
	for _, n := range numbers {
		s := node.Slab{Number: uint32(max(n, -n)), Remote: rdma.Remote{Addr: uint64(max(n, -n)) << 20, Len: 2 * vmm.PageSize, RKey: 5}}
		if n < 0 {
			s.Return = time.Unix(1, 0)
		}
		l.Slabs = append(l.Slabs, s)
	}
	return l
}

// put places a page as a WRITE does.
func put(t *testing.T, l *layout, page int64) place {
	t.Helper()
	at, ok := l.reserve(page)
	if !ok || !l.commit(page, at) {
		t.Fatalf("page %d finds no place", page)
	}
	return at
}

// Pages keep their place, a WRITE that fails frees the place that it had reserved, and a full lease
// has none.
func TestLayoutPlaces(t *testing.T) {
	l := newLayout()
	l.update(leased(1, 2))
	first := put(t, l, 10)
	if again := put(t, l, 10); again != first || l.room() != 3 {
		t.Errorf("the page moved from %v to %v; room for %d, want 3", first, again, l.room())
	}
	at, _ := l.reserve(11)
	l.release(11, at)
	at, _ = l.reserve(10)
	l.release(10, at) // its content is unknown, its place stays
	if l.room() != 3 || l.pages[10] != first {
		t.Errorf("room for %d pages after WRITEs that failed, want 3", l.room())
	}
	for page := range int64(3) {
		put(t, l, page)
	}
	if at, ok := l.reserve(20); ok {
		t.Errorf("a page finds place %v in a full lease", at)
	}
}

// A page moves out of a slab that has to be returned when it is written, and its old place is empty.
func TestLayoutLeaving(t *testing.T) {
	l := newLayout()
	l.update(leased(1, 2))
	put(t, l, 10)
	l.update(leased(-1, 2))
	if at := put(t, l, 10); at.slab != 2 || len(l.slabs[1].pages) != 0 || l.room() != 1 {
		t.Errorf("the page is at %v, slab 1 has %d pages, room for %d", at, len(l.slabs[1].pages), l.room())
	}
}

// Pages of a slab that is gone, or has another key, are lost until they are written again. A WRITE
// that was outstanding has not succeeded.
func TestLayoutLost(t *testing.T) {
	l := newLayout()
	l.update(leased(1))
	put(t, l, 10)
	at, _ := l.reserve(10)
	other := leased(1, 2)
	other.Slabs[0].Remote.RKey++
	l.update(other)
	if _, lost := l.lost[10]; !lost || l.commit(10, at) {
		t.Error("a page of a slab whose key has changed is not lost")
	}
	l.release(10, at)
	if l.room() != 4 {
		t.Errorf("room for %d pages, want 4", l.room())
	}
	put(t, l, 10)
	if _, lost := l.lost[10]; lost {
		t.Error("a page that was written again is lost")
	}
}
