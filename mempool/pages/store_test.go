// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/server"
	"github.com/softroce/softroce-xdp/mempool/vmm"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const (
	pageBytes = 4096
	slabPages = 8
	slabBytes = slabPages * pageBytes
)

// pool runs a server of some slabs until the test ends. Nodes have a time grace to return slabs.
func pool(t *testing.T, slabs int, grace time.Duration) (dev verbs.Device, at string) {
	t.Helper()
	return poolOf(t, slabs, slabBytes, lease.Config{Grace: grace})
}

func poolOf(t *testing.T, slabs int, slabBytes uint64, c lease.Config) (dev verbs.Device, at string) {
	t.Helper()
	dev = devices.Loopback(t)
	s, err := server.Listen(testkit.Context(t), dev, "127.0.0.1:0", server.Config{
		Bytes: uint64(slabs) * slabBytes, SlabBytes: slabBytes, Lease: c,
	})
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return dev, s.Addr().String()
}

func join(t *testing.T, dev verbs.Device, at, name string, demand uint64) *node.Node {
	t.Helper()
	n := testkit.Must1(node.Join(testkit.Context(t), dev, at, node.Config{Name: name, Period: 20 * time.Millisecond, Demand: demand}))(t)
	t.Cleanup(func() { _ = n.Close() })
	return n
}

func newStore(t *testing.T, n *node.Node, c Config) (s *Store, page []byte) {
	t.Helper()
	s = testkit.Must1(New(n, c))(t)
	t.Cleanup(s.Close)
	page = testkit.Must1(s.AllocBuffers(pageBytes))(t)
	return s, page
}

// access reads or writes one page, and waits for it.
func access(start func([]vmm.Request), page int64, data []byte) error {
	done := make(chan error, 1)
	start([]vmm.Request{{Page: page, Data: data, Done: func(err error) { done <- err }}})
	return <-done
}

// fill fills a page with its number and a version.
func fill(data []byte, page int64, version uint64) {
	for i := 0; i < len(data); i += 16 {
		binary.LittleEndian.PutUint64(data[i:], uint64(page))
		binary.LittleEndian.PutUint64(data[i+8:], version)
	}
}

func check(t *testing.T, data []byte, page int64, version uint64) {
	t.Helper()
	want := make([]byte, len(data))
	if fill(want, page, version); string(data) != string(want) {
		t.Fatalf("page %d: %x, want %x", page, data[:16], want[:16])
	}
}

// Pages are read as they were written. A page that was never written, and one without room, are errors.
func TestStore(t *testing.T) {
	dev, at := pool(t, 2, testkit.Patience)
	s, data := newStore(t, join(t, dev, at, "a", 2*slabBytes), Config{Demand: 2 * slabBytes})
	for page := range int64(2 * slabPages) {
		fill(data, page, 1)
		testkit.Must(t, access(s.WritePages, page*1000, data))
	}
	if err := access(s.WritePages, 7, data); !errors.Is(err, ErrNoRoom) {
		t.Errorf("the space is full: %v", err)
	}
	if err := access(s.ReadPages, 7, data); !errors.Is(err, ErrNoPage) {
		t.Errorf("the page was never written: %v", err)
	}
	if err := access(s.ReadPages, 0, data[:100]); err == nil {
		t.Error("a part of a page is accepted")
	}
	for page := range int64(2 * slabPages) {
		testkit.Must(t, access(s.ReadPages, page*1000, data))
		check(t, data, page, 1)
	}
	if _, err := New(s.n, Config{PageBytes: 1000}); err == nil {
		t.Error("pages of 1000 bytes are accepted")
	}
}

// The demand follows what is stored: a store that finds no room has some in a later period.
func TestGrows(t *testing.T) {
	dev, at := pool(t, 8, testkit.Patience)
	s, data := newStore(t, join(t, dev, at, "a", 0), Config{})
	ctx := testkit.Context(t)
	for page := range int64(3 * slabPages) {
		fill(data, page, 1)
		for err := ErrNoRoom; err != nil; {
			if err = access(s.WritePages, page, data); err != nil && !errors.Is(err, ErrNoRoom) {
				t.Fatal(err)
			}
			testkit.Must(t, ctx.Err())
		}
	}
	for page := range int64(3 * slabPages) {
		testkit.Must(t, access(s.ReadPages, page, data))
		check(t, data, page, 1)
	}
}

// While another node takes and returns space, pages move, and each READ returns what was written last, or
// says that the page is lost.
func TestMoves(t *testing.T) {
	dev, at := pool(t, 8, testkit.Patience)
	n := join(t, dev, at, "a", 8*slabBytes)
	s, data := newStore(t, n, Config{Demand: 8 * slabBytes})
	other := join(t, dev, at, "b", 0)
	versions := map[int64]uint64{}
	write := func(page int64, version uint64) {
		fill(data, page, version)
		if err := access(s.WritePages, page, data); err == nil {
			versions[page] = version
		} else if !errors.Is(err, ErrNoRoom) && !errors.Is(err, ErrLost) {
			t.Fatal(err)
		}
	}
	lost := 0
	read := func(page int64) {
		switch err := access(s.ReadPages, page, data); {
		case err == nil:
			check(t, data, page, versions[page])
		case errors.Is(err, ErrLost):
			lost++
		default:
			t.Fatal(err)
		}
	}
	const few = 3 * slabPages // fit what a keeps
	for page := range int64(few) {
		write(page*5, 1)
	}
	ctx, version := testkit.Context(t), uint64(2)
	for _, demand := range []uint64{8, 0, 8} {
		other.SetDemand(demand * slabBytes)
		for reached := false; !reached; version++ {
			testkit.Must(t, ctx.Err())
			testkit.Must(t, n.Err())
			page := int64(version%few) * 5
			write(page, version)
			read(page)
			read(int64((version*7)%few) * 5)
			for _, x := range other.Lease().Slabs {
				if !x.Return.IsZero() {
					testkit.Must(t, other.Return(ctx, x.Number))
				}
			}
			have := len(other.Lease().Slabs)
			reached = demand == 0 && have == 0 || demand > 0 && have >= 3
		}
	}
	for page := range int64(few) {
		read(page * 5)
	}
	if lost > 0 {
		t.Errorf("%d READs of lost pages, with room for all", lost)
	}
}

// A page for which there is no room in the smaller lease is lost, and says so. It can be written again.
func TestLost(t *testing.T) {
	dev, at := pool(t, 2, testkit.Patience)
	n := join(t, dev, at, "a", 2*slabBytes)
	s, data := newStore(t, n, Config{Demand: 2 * slabBytes})
	for page := range int64(2 * slabPages) {
		fill(data, page, 1)
		testkit.Must(t, access(s.WritePages, page, data))
	}
	other := join(t, dev, at, "b", 2*slabBytes)
	ctx := testkit.Context(t)
	// The node returns the slab without room for its pages, as at the end of the time for it.
	for returned := false; !returned; time.Sleep(time.Millisecond) {
		testkit.Must(t, ctx.Err())
		for _, l := range n.Lease().Slabs {
			if !l.Return.IsZero() {
				testkit.Must(t, n.Return(ctx, l.Number))
				returned = true
			}
		}
	}
	for len(other.Lease().Slabs) == 0 {
		testkit.Must(t, ctx.Err())
		time.Sleep(time.Millisecond)
	}
	lost := int64(-1)
	for page := range int64(2 * slabPages) {
		switch err := access(s.ReadPages, page, data); {
		case errors.Is(err, ErrLost):
			lost = page
		case err != nil:
			t.Fatal(err)
		default:
			check(t, data, page, 1)
		}
	}
	if lost < 0 {
		t.Fatal("another node has half of the pool, and no page is lost")
	}
	testkit.Must(t, other.Leave(ctx))
	for err := ErrNoRoom; err != nil; {
		testkit.Must(t, ctx.Err())
		fill(data, lost, 2)
		if err = access(s.WritePages, lost, data); err != nil && !errors.Is(err, ErrNoRoom) {
			t.Fatal(err)
		}
	}
	testkit.Must(t, access(s.ReadPages, lost, data))
	check(t, data, lost, 2)
}

// Requests after the end of the connection, and after Close, are errors.
func TestEnds(t *testing.T) {
	dev, at := pool(t, 2, testkit.Patience)
	n := join(t, dev, at, "a", slabBytes)
	s, data := newStore(t, n, Config{})
	testkit.Must(t, access(s.WritePages, 1, data))
	testkit.Must(t, n.Leave(testkit.Context(t)))
	<-n.Done()
	s.refresh()
	if err := access(s.ReadPages, 1, data); !errors.Is(err, ErrLost) || !errors.Is(err, n.Err()) {
		t.Errorf("a READ after Leave: %v, want %v and %v", err, ErrLost, n.Err())
	}
	if err := access(s.WritePages, 2, data); !errors.Is(err, n.Err()) || errors.Is(err, ErrNoRoom) {
		t.Errorf("a WRITE after Leave: %v, want %v", err, n.Err())
	}
	s.Close()
	if err := access(s.WritePages, 1, data); err == nil {
		t.Error("a WRITE after Close succeeds")
	}
}

// A page that is forgotten while a READ of it is outstanding keeps its slot until the READ has ended: a READ that is
// repeated would have the bytes of the next page.
func TestForgottenWhileRead(t *testing.T) {
	dev, at := pool(t, 2, testkit.Patience)
	s, data := newStore(t, join(t, dev, at, "a", slabBytes), Config{Demand: slabBytes})
	fill(data, 1, 1)
	testkit.Must(t, access(s.WritePages, 1, data))
	s.mu.Lock()
	p, room := s.pages[1], s.room
	x, slot := p.slab, p.slot
	p.busy++ // a READ
	s.mu.Unlock()
	s.Forget(1)
	place := func() bool { return x.runs[slot>>s.shift].used>>(slot-x.runs[slot>>s.shift].first)&1 != 0 }
	s.mu.Lock()
	if !place() || s.room != room || s.pages[1] != nil || s.stored != 0 {
		t.Errorf("forgotten: the slot is in use: %v; room for %d pages, %d before; %d are stored", place(), s.room, room, s.stored)
	}
	s.mu.Unlock()
	s.finish([]entry{{p: p, r: vmm.Request{Page: 1, Done: func(error) {}}}}, nil)
	s.mu.Lock()
	if place() || s.room != room+1 || p.kept != nil {
		t.Errorf("after the READ: the slot is in use: %v; room for %d pages, want %d", place(), s.room, room+1)
	}
	s.mu.Unlock()
}

// The slab of a page ends while a WRITE of it is outstanding, which succeeds then: the page is lost nevertheless.
func TestEndsWhileWritten(t *testing.T) {
	dev, at := pool(t, 2, testkit.Patience)
	s, data := newStore(t, join(t, dev, at, "a", slabBytes), Config{Demand: slabBytes})
	testkit.Must(t, access(s.WritePages, 1, data))
	s.mu.Lock()
	p := s.pages[1]
	p.busy++ // the WRITE
	p.slab.leaving = true
	s.remove(1, p) // as takeLease does
	s.mu.Unlock()
	var err error
	s.finish([]entry{{Op: node.Op{Write: true}, p: p, r: vmm.Request{Page: 1, Done: func(e error) { err = e }}}}, nil)
	if !errors.Is(err, ErrLost) {
		t.Errorf("the WRITE: %v, want %v", err, ErrLost)
	}
}

// A page does not move while a request of it is outstanding, and requests wait while it moves.
func TestMoveExcludesRequests(t *testing.T) {
	dev, at := pool(t, 2, testkit.Patience)
	s, data := newStore(t, join(t, dev, at, "a", 2*slabBytes), Config{Demand: 2 * slabBytes})
	fill(data, 1, 1)
	testkit.Must(t, access(s.WritePages, 1, data))
	ctx, buf := testkit.Context(t), data

	s.mu.Lock()
	p := s.pages[1]
	p.slab.leaving = true // until the next lease
	p.busy++
	slab, slot := p.slab, p.slot
	s.mu.Unlock()
	s.move(ctx, 1, p, buf)
	s.mu.Lock()
	if p.slab != slab || p.slot != slot {
		t.Error("the page moved during a request")
	}
	p.busy--
	p.moving = true
	s.mu.Unlock()
	done := make(chan error, 1)
	s.ReadPages([]vmm.Request{{Page: 1, Data: data, Done: func(err error) { done <- err }}})
	s.mu.Lock()
	if len(p.waiting) != 1 || p.busy != 0 {
		t.Errorf("%d requests wait and %d are outstanding while the page moves", len(p.waiting), p.busy)
	}
	waiting := p.waiting
	p.moving, p.waiting = false, nil
	s.mu.Unlock()
	for _, begin := range waiting {
		begin()
		testkit.Must(t, <-done)
	}
	check(t, data, 1, 1)
}
