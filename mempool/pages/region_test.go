// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/pages"
	"github.com/softroce/softroce-xdp/mempool/server"
	"github.com/softroce/softroce-xdp/mempool/vmm"
	_ "github.com/softroce/softroce-xdp/rocev2/nic/loopback"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

const (
	slab = 64 << 10
)

// fixed is a planner that gives each node the slabs that the test sets.
type fixed struct {
	mu    sync.Mutex
	slabs int
}

func (*fixed) Observe(lease.NodeID, lease.Usage) {}
func (*fixed) Forget(lease.NodeID)               {}

func (*fixed) Prediction(lease.NodeID) lease.Prediction { return lease.Prediction{} }

func (f *fixed) Plan(slabs int, _ uint64, list []lease.Need) []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	plan := make([]int, len(list))
	for i := range plan {
		plan[i] = min(f.slabs, slabs)
		slabs -= plan[i]
	}
	return plan
}

func (f *fixed) set(n int) {
	f.mu.Lock()
	f.slabs = n
	f.mu.Unlock()
}

// pool starts a server and a node that wants all of it, on a device without an interface.
func pool(t testing.TB, planner lease.Planner, bytes, slabBytes uint64) (*node.Node, *pages.Store) {
	t.Helper()
	return join(t, planner, bytes, slabBytes, bytes)
}

func join(t testing.TB, planner lease.Planner, bytes, slabBytes, demand uint64) (*node.Node, *pages.Store) {
	t.Helper()
	ctx := testkit.Context(t)
	dev := devices.Loopback(t)
	s, err := server.Listen(ctx, dev, "127.0.0.1:0", server.Config{
		Bytes: bytes, SlabBytes: slabBytes,
		Lease: lease.Config{Planner: planner, Grace: testkit.Patience}, // a node that stands still must not lose slabs
	})
	testkit.Must(t, err)
	running, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(running) }()
	t.Cleanup(func() { stop(); <-done })
	n, err := node.Join(ctx, dev, s.Addr().String(), node.Config{Name: "one", Period: 50 * time.Millisecond, Demand: demand})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = n.Close() })
	store, err := pages.New(n, pages.Config{Demand: demand})
	testkit.Must(t, err)
	t.Cleanup(store.Close)
	return n, store
}

func region(t testing.TB, c vmm.Config, store vmm.Store) *vmm.Region {
	t.Helper()
	r := testkit.Must1(vmm.NewRegion(c, store))(t)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// use accesses a region at random for a number of rounds, and compares it with a slice.
func use(t *testing.T, r *vmm.Region, want []byte, rnd *rand.Rand, rounds int) {
	t.Helper()
	b := make([]byte, 10000)
	for range rounds {
		off := rnd.IntN(len(want) - len(b))
		part := b[:rnd.IntN(len(b))+1]
		if rnd.IntN(2) == 0 {
			for i := range part {
				part[i] = byte(rnd.Uint32())
			}
			copy(want[off:], part)
			if _, err := r.WriteAt(part, int64(off)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if _, err := r.ReadAt(part, int64(off)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(part, want[off:off+len(part)]) {
			t.Fatalf("%d bytes at %d differ", len(part), off)
		}
	}
}

// S4.4: a region with a quarter of its pages local has the content of a slice. While it is used, the
// server takes slabs back and gives others: pages are moved, and none is lost.
func TestRegionOverPool(t *testing.T) {
	const size = 1 << 20
	planner := &fixed{slabs: 40}
	n, store := pool(t, planner, 64*slab, slab)
	r := region(t, vmm.Config{Size: size, Local: size / 4, Deadline: testkit.Patience}, store)
	want := make([]byte, size)
	rnd := rand.New(rand.NewPCG(1, 5))
	use(t, r, want, rnd, 500)
	for _, slabs := range []int{20, 40, 18, 30, 17} {
		planner.set(slabs)
		testkit.Eventually(t, fmt.Sprintf("%d slabs are leased", slabs), func() bool {
			use(t, r, want, rnd, 20)
			return len(n.Lease().Slabs) == slabs
		})
		use(t, r, want, rnd, 100)
	}
	got := make([]byte, size)
	if _, err := r.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the region differs at the end (%v)", err)
	}
	if s := r.Stats(); s.PageIns == 0 || s.PageOuts == 0 {
		t.Errorf("%+v", s)
	}
}

// A pool without room is ErrNoRoom for accesses that need room, and they succeed once it has some.
func TestRegionFull(t *testing.T) {
	const size = 1 << 20
	planner := &fixed{slabs: 4}
	n, store := pool(t, planner, 64*slab, slab)
	const deadline = 100 * time.Millisecond
	r := region(t, vmm.Config{Size: size, Local: size / 4, Deadline: deadline}, store)
	b := bytes.Repeat([]byte{7}, size)
	testkit.Eventually(t, "there is no room", func() error { // where this process stands still, an access is late for another reason
		n, err := r.WriteAt(b, 0)
		if errors.Is(err, vmm.ErrNoRoom) && errors.Is(err, pages.ErrNoRoom) {
			return nil
		}
		if !errors.Is(err, vmm.ErrNoRoom) && !errors.Is(err, vmm.ErrDeadline) {
			t.Fatalf("%d bytes, %v", n, err)
		}
		return fmt.Errorf("%d bytes, %w", n, err)
	})
	planner.set(32)
	testkit.Eventually(t, "32 slabs are leased", func() bool { return len(n.Lease().Slabs) == 32 })
	got := make([]byte, size)
	for _, access := range []func(page int64) (int, error){
		func(page int64) (int, error) { return r.WriteAt(b[page:page+vmm.PageSize], page) },
		func(page int64) (int, error) { return r.ReadAt(got[page:page+vmm.PageSize], page) },
	} {
		for page := int64(0); page < size; page += vmm.PageSize {
			inTime(t, deadline, func() error {
				_, err := access(page)
				return err
			})
		}
	}
	if !bytes.Equal(got, b) {
		t.Error("the region differs")
	}
}

// inTime ends the test unless an access succeeds. It repeats the access a few times if the access has taken the time of
// its deadline, as in a process that stands still for so long.
func inTime(t *testing.T, deadline time.Duration, access func() error) {
	t.Helper()
	for tries := 1; ; tries++ {
		begin := time.Now()
		err := access()
		if err == nil {
			return
		}
		late := errors.Is(err, vmm.ErrDeadline) || errors.Is(err, vmm.ErrNoRoom) // the second: it still waited for a local page
		if took := time.Since(begin); !late || took < deadline || tries == 5 {
			t.Fatalf("access %d fails after %v: %v", tries, took, err)
		}
	}
}

// The store asks for the space that it needs: with the planner of the server, a node that has joined
// without demand gets more until all pages have room.
func TestRegionDemand(t *testing.T) {
	const size = 1 << 20
	_, store := join(t, nil, 64*slab, slab, 0)
	r := region(t, vmm.Config{Size: size, Local: size / 4, Deadline: 100 * time.Millisecond}, store)
	b := bytes.Repeat([]byte{7}, size)
	testkit.Eventually(t, "there is room", func() error {
		_, err := r.WriteAt(b, 0)
		return err
	})
}

// TestMain lets the handler of a map start a pool: server and node are in the handler process, since
// the device without an interface ends at the process.
func TestMain(m *testing.M) {
	vmm.Main(func(string) (vmm.Store, error) {
		ctx := context.Background()
		dev, err := rdma.Open(ctx, "lo", rdma.WithDriver("loopback"))
		if err != nil {
			return nil, err
		}
		s, err := server.Listen(ctx, dev, "127.0.0.1:0", server.Config{Bytes: 64 * slab, SlabBytes: slab, Lease: lease.Config{Grace: testkit.Patience}})
		if err != nil {
			return nil, err
		}
		go func() { _ = s.Serve(ctx) }()
		n, err := node.Join(ctx, dev, s.Addr().String(), node.Config{Name: "map", Period: 50 * time.Millisecond, Demand: 4 << 20})
		if err != nil {
			return nil, err
		}
		return pages.New(n, pages.Config{Demand: 4 << 20})
	})
	os.Exit(m.Run())
}

// S4.4: a map whose pages are in the pool has the content of a slice.
func TestMapOverPool(t *testing.T) {
	if err := vmm.Supported(); err != nil {
		require.Skip(t, err.Error())
	}
	const size = 2 << 20
	m := testkit.Must1(vmm.NewMap(vmm.MapConfig{Config: vmm.Config{Size: size, Local: size / 8, Deadline: testkit.Patience}}))(t)
	defer m.Close()
	want := make([]byte, size)
	rnd := rand.New(rand.NewPCG(1, 6))
	for range 2000 {
		off := rnd.IntN(size - 10000)
		part := want[off : off+rnd.IntN(10000)]
		if rnd.IntN(2) == 0 {
			for i := range part {
				part[i] = byte(rnd.Uint32())
			}
			copy(m.Bytes()[off:], part)
		} else if !bytes.Equal(m.Bytes()[off:off+len(part)], part) {
			t.Fatalf("%d bytes at %d differ", len(part), off)
		}
	}
	if sha256.Sum256(m.Bytes()) != sha256.Sum256(want) {
		t.Error("the map differs at the end")
	}
	if s, err := m.Stats(); err != nil || s.PageIns == 0 || s.Stored == 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// Pages of a slab that ends before they find room elsewhere are errors, never zeroes.
func TestRegionLost(t *testing.T) {
	const size = 1 << 20
	planner := &fixed{slabs: 16}
	n, store := pool(t, planner, 64*slab, slab)
	r := region(t, vmm.Config{Size: size, Local: size / 8, Deadline: testkit.Patience}, store)
	b := bytes.Repeat([]byte{7}, size)
	if _, err := r.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	planner.set(2)
	testkit.Eventually(t, "two slabs are leased", func() bool {
		for _, l := range n.Lease().Slabs {
			if !l.Return.IsZero() { // as at the end of the time for it
				testkit.Must(t, n.Return(testkit.Context(t), l.Number))
			}
		}
		return len(n.Lease().Slabs) <= 2
	})
	lost := 0
	page := make([]byte, vmm.PageSize)
	for off := int64(0); off < size; off += vmm.PageSize {
		_, err := r.ReadAt(page, off)
		switch {
		case err == nil && !bytes.Equal(page, b[:vmm.PageSize]):
			t.Fatalf("the page at %d differs", off)
		case err != nil:
			lost++
			if !errors.Is(err, pages.ErrLost) {
				t.Fatal(err)
			}
		}
	}
	if lost < 150 {
		t.Errorf("%d pages are lost of 256, with 2 slabs of 16 left", lost)
	}
}

// The end of the server is an error of the accesses, with its reason.
func TestRegionServerGone(t *testing.T) {
	const size = 1 << 20
	n, store := pool(t, &fixed{slabs: 32}, 64*slab, slab)
	r := region(t, vmm.Config{Size: size, Local: size / 4, Deadline: testkit.Patience}, store)
	b := bytes.Repeat([]byte{7}, size)
	if _, err := r.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	// All is read once, so that the local pages are stored as well: a read would wait for room until the deadline.
	_, err := r.ReadAt(b, 0)
	testkit.Must(t, err)
	testkit.Must(t, n.Close())
	var p *vmm.PageError
	if _, err := r.ReadAt(b, 0); !errors.As(err, &p) {
		t.Errorf("ReadAt: %v", err)
	}
}

// BenchmarkRegion compares a READ of 4 KB from the pool, and a page of a region that is not local, on a
// device without a network.
func BenchmarkRegion(b *testing.B) {
	const size = 32 << 20
	n, store := pool(b, &fixed{slabs: 16}, 16<<22, 4<<20)
	r := region(b, vmm.Config{Size: size, Local: 4 << 20, Deadline: testkit.Patience}, store)
	buf := make([]byte, 1<<20)
	for pass := range 2 {
		for at := int64(0); at < size; at += int64(len(buf)) {
			var err error
			if pass == 0 {
				_, err = r.WriteAt(buf, at)
			} else {
				_, err = r.ReadAt(buf, at)
			}
			testkit.Must(b, err)
		}
	}
	b.Run("READ/4KB", func(b *testing.B) {
		first := n.Lease().Slabs[0].Number
		b.SetBytes(vmm.PageSize)
		for b.Loop() {
			testkit.Must(b, n.Read(context.Background(), first, 0, buf[:vmm.PageSize]))
		}
	})
	b.Run("page/random", func(b *testing.B) {
		rnd := rand.New(rand.NewPCG(1, 1))
		b.SetBytes(vmm.PageSize)
		for b.Loop() {
			_, err := r.ReadAt(buf[:vmm.PageSize], rnd.Int64N(size/vmm.PageSize)*vmm.PageSize)
			testkit.Must(b, err)
		}
	})
	b.Run("scan/64KB", func(b *testing.B) {
		at := int64(0)
		b.SetBytes(64 << 10)
		for b.Loop() {
			_, err := r.ReadAt(buf[:64<<10], at)
			testkit.Must(b, err)
			at = (at + 64<<10) % size
		}
	})
}
