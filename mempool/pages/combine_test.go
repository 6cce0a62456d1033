// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/vmm"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
)

// Requests of pages that are next to each other are one operation of at most 64 KB. The first READ of a call does
// not wait for others.
func TestCombine(t *testing.T) {
	dev, at := poolOf(t, 2, 256<<10, lease.Config{})
	s, data := newStore(t, join(t, dev, at, "a", 512<<10), Config{Demand: 512 << 10})
	x := &slab{number: 7}
	y := &slab{number: 8}
	requests := func(write, alone bool, x *slab, slots ...int) (list []entry) {
		for i, slot := range slots {
			list = append(list, entry{alone: alone && i == 0, Op: node.Op{Write: write, Slab: x.number, Offset: s.offset(slot), Data: data}})
		}
		return list
	}
	upTo := func(n int) (list []int) {
		for i := range n {
			list = append(list, i)
		}
		return list
	}
	for _, c := range []struct {
		what string
		list []entry
		want []int // requests of each operation
	}{
		{"nothing", nil, nil},
		{"neighbours", requests(true, false, x, 3, 4, 5), []int{3}},
		{"a gap", requests(true, false, x, 3, 4, 6), []int{2, 1}},
		{"one twice", requests(true, false, x, 3, 3), []int{1, 1}},
		{"backwards", requests(true, false, x, 3, 2), []int{1, 1}},
		{"64 KB and more", requests(true, false, x, upTo(40)...), []int{16, 16, 8}},
		{"two slabs", append(requests(true, false, x, 1, 2), requests(true, false, y, 3, 4)...), []int{2, 2}},
		{"READs after WRITEs", append(requests(true, false, x, 1, 2), requests(false, false, x, 3, 4)...), []int{2, 2}},
		{"two calls of READ", append(requests(false, true, x, 1, 2, 3), requests(false, true, x, 4, 5)...), []int{1, 2, 1, 1}},
	} {
		var got []int
		for _, o := range s.combine(c.list) {
			got = append(got, 1+len(o.More))
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: operations of %v requests, want %v", c.what, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: operations of %v requests, want %v", c.what, got, c.want)
			}
		}
	}
}

// batch collects how the requests of a call end.
type batch struct {
	all  sync.WaitGroup
	mu   sync.Mutex
	errs map[int64][]error
}

func (b *batch) request(page int64, data []byte) vmm.Request {
	b.all.Add(1)
	return vmm.Request{Page: page, Data: data, Done: func(err error) {
		b.mu.Lock()
		b.errs[page] = append(b.errs[page], err)
		b.mu.Unlock()
		b.all.Done()
	}}
}

// call makes a call for pages with their data, and returns the error of each page.
func call(t *testing.T, start func([]vmm.Request), list []int64, data func(page int64) []byte) map[int64]error {
	t.Helper()
	b := batch{errs: map[int64][]error{}}
	var requests []vmm.Request
	for _, page := range list {
		requests = append(requests, b.request(page, data(page)))
	}
	start(requests)
	b.all.Wait()
	out := map[int64]error{}
	for _, page := range list {
		if len(b.errs[page]) != 1 {
			t.Fatalf("page %d was completed %d times", page, len(b.errs[page]))
		}
		out[page] = b.errs[page][0]
	}
	return out
}

// fixed is a planner that gives a node the slabs that the test sets.
type fixed struct{ slabs atomic.Int32 }

func (*fixed) Observe(lease.NodeID, lease.Usage)        {}
func (*fixed) Forget(lease.NodeID)                      {}
func (*fixed) Prediction(lease.NodeID) lease.Prediction { return lease.Prediction{} }

func (f *fixed) Plan(slabs int, _ uint64, list []lease.Need) []int {
	plan := make([]int, len(list))
	for i := range plan {
		plan[i] = min(int(f.slabs.Load()), slabs)
		slabs -= plan[i]
	}
	return plan
}

// Calls with many pages, while slabs are taken back and given again: each READ has what was written last, or
// is an error; and no page that fits is lost.
func TestBatches(t *testing.T) {
	const pages, slabBytes = 80, 80 << 10 // runs of 16 and of 4 pages
	plan := &fixed{}
	plan.slabs.Store(12)
	dev, at := poolOf(t, 12, slabBytes, lease.Config{Grace: testkit.Patience, Planner: plan})
	n := join(t, dev, at, "a", 12*slabBytes)
	s, _ := newStore(t, n, Config{Demand: 12 * slabBytes})
	memory := testkit.Must1(s.AllocBuffers(pages * pageBytes))(t)
	buffer := func(page int64) []byte { return memory[page*pageBytes:][:pageBytes:pageBytes] }
	rnd, versions, ctx := rand.New(rand.NewPCG(2, 3)), map[int64]uint64{}, testkit.Context(t)
	written, neighbours := uint64(0), 0

	// some returns pages for a call, without one twice: often a part of the numbers in order.
	some := func() (list []int64) {
		first, last := rnd.Int64N(pages), rnd.Int64N(pages)
		for page := first; page <= last; page++ {
			if rnd.IntN(8) > 0 {
				list = append(list, page)
			}
		}
		if rnd.IntN(4) == 0 {
			rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		}
		return list
	}
	step := func() {
		testkit.Must(t, ctx.Err())
		testkit.Must(t, n.Err())
		list := some()
		switch k := rnd.IntN(10); {
		case k == 0 && len(list) > 0:
			s.Forget(list[0])
			delete(versions, list[0])
		case k < 5:
			written++
			for page, err := range call(t, s.WritePages, list, func(page int64) []byte {
				fill(buffer(page), page, written)
				return buffer(page)
			}) {
				switch {
				case err == nil:
					versions[page] = written
				case errors.Is(err, ErrNoRoom): // it is as before
				default:
					t.Fatalf("WRITE of page %d: %v", page, err)
				}
			}
		default:
			clear(memory)
			for page, err := range call(t, s.ReadPages, list, buffer) {
				switch version, ok := versions[page]; {
				case !ok && errors.Is(err, ErrNoPage):
				case !ok || err != nil:
					t.Fatalf("READ of page %d, written: %v: %v", page, ok, err)
				default:
					check(t, buffer(page), page, version)
				}
			}
		}
		s.mu.Lock()
		for page := range int64(pages - 1) {
			p, q := s.pages[page], s.pages[page+1]
			if p != nil && q != nil && p.slab != nil && p.slab == q.slab && q.slot == p.slot+1 {
				neighbours++
			}
		}
		s.mu.Unlock()
	}
	for _, slabs := range []int{6, 12, 5, 8, 5, 12} {
		plan.slabs.Store(int32(slabs))
		for reached := false; !reached; {
			step()
			l := n.Lease()
			reached = len(l.Slabs) == slabs && l.Bytes() == uint64(slabs)*slabBytes
		}
	}
	for range 200 {
		step()
	}
	if neighbours == 0 {
		t.Error("no two pages were next to each other")
	}
}

// When slabs are returned, or the connection ends, while combined operations are outstanding: each page is completed
// once, with its content or with an error.
func TestCombinedFails(t *testing.T) {
	const pages = 128
	failed := 0
	for round := range 12 {
		dev, at := poolOf(t, 2, 256<<10, lease.Config{})
		n := join(t, dev, at, "a", 512<<10)
		s, _ := newStore(t, n, Config{Demand: 512 << 10})
		memory, err := rdma.Alloc(dev, pages*pageBytes) // it outlives the node
		testkit.Must(t, err)
		testkit.Must(t, n.Share(memory))
		buffer := func(page int64) []byte { return memory[page*pageBytes:][:pageBytes:pageBytes] }
		var list []int64
		for page := range int64(pages) {
			list = append(list, page)
			fill(buffer(page), page, 1)
		}
		for page, err := range call(t, s.WritePages, list, buffer) {
			if err != nil {
				t.Fatalf("WRITE of page %d: %v", page, err)
			}
		}
		clear(memory)
		ended := make(chan error, 1)
		go func() { // at the same time as the call
			time.Sleep(time.Duration(round) * 50 * time.Microsecond)
			if round%2 == 0 {
				ended <- n.Close()
				return
			}
			ended <- n.Return(testkit.Context(t), n.Lease().Slabs[0].Number, n.Lease().Slabs[1].Number)
		}()
		if round == 1 { // all of them fail
			testkit.Must(t, <-ended)
			ended <- nil
		}
		for page, err := range call(t, s.ReadPages, list, buffer) {
			switch {
			case err != nil:
				failed++
				if round%2 == 1 && !errors.Is(err, ErrLost) {
					t.Errorf("round %d: page %d of a slab that was returned: %v", round, page, err)
				}
			default:
				check(t, buffer(page), page, 1)
			}
		}
		testkit.Must(t, <-ended)
	}
	if failed < pages {
		t.Errorf("%d READs have failed, want at least %d", failed, pages)
	}
}
