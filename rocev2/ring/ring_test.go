// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/rocev2/ring"
)

// mapping returns memory that begins at a page.
func mapping(t testing.TB, n int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	return b
}

func open(t testing.TB, b []byte, s ring.Shape) ring.Ring {
	t.Helper()
	r, err := ring.Open(b, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A producer sends numbers to a consumer in another goroutine: each arrives once, in order.
func TestInOrder(t *testing.T) {
	const n = 50_000
	s := ring.ShapeFor(8, 16)
	b := mapping(t, s.Bytes())
	p, c := ring.NewProducer(open(t, b, s), 5), ring.NewConsumer(open(t, b, s))
	var both sync.WaitGroup
	both.Go(func() {
		for i := uint64(0); i < n; {
			entry, err := p.Next()
			if err != nil {
				t.Error(err)
				return
			}
			if entry == nil {
				runtime.Gosched()
				continue
			}
			binary.NativeEndian.PutUint64(entry, i)
			p.Advance()
			p.Publish()
			i++
		}
	})
	entry := make([]byte, s.EntryBytes)
	for i := uint64(0); i < n; {
		k, err := c.Available()
		if err != nil || k > 5 {
			t.Fatalf("%d entries of 5, %v", k, err)
		}
		if k == 0 {
			runtime.Gosched()
		}
		for range k {
			c.Copy(entry)
			if got := binary.NativeEndian.Uint64(entry); got != i {
				t.Fatalf("entry %d has %d", i, got)
			}
			i++
		}
		c.Free(c.Read())
	}
	both.Wait()
}

// Against a list as the model, from any index on: also when the indexes pass 2^32.
func TestModel(t *testing.T) {
	s := ring.ShapeFor(4, 16)
	b := mapping(t, s.Bytes())
	rapid.Check(t, func(t *rapid.T) {
		clear(b)
		r, err := ring.Open(b, s)
		if err != nil {
			t.Fatal(err)
		}
		depth := rapid.Uint32Range(1, 4).Draw(t, "depth")
		p, c := ring.NewProducer(r, depth), ring.NewConsumer(r)
		var model []byte // published
		written, freed := 0, 0
		var next byte // number of the next entry
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				entry, err := p.Next()
				if full := len(model)+written+freed >= int(depth); err != nil || (entry == nil) != full {
					t.Fatalf("full is %v, %v; %d written, %d published, %d not freed of %d", entry == nil, err, written, len(model), freed, depth)
				}
				if entry != nil {
					entry[0] = next
					p.Advance()
					next++
					written++
				}
			case 1:
				p.Publish()
				for ; written > 0; written-- {
					model = append(model, next-byte(written))
				}
			case 2:
				k, err := c.Available()
				if err != nil || k == 0 != (len(model) == 0) || int(k) > len(model) {
					t.Fatalf("%d available of %d, %v", k, len(model), err)
				}
				if k > 0 {
					entry := make([]byte, 16)
					c.Copy(entry)
					if entry[0] != model[0] {
						t.Fatalf("%d, want %d", entry[0], model[0])
					}
					model = model[1:]
					freed++
				}
				if rapid.Bool().Draw(t, "free") {
					c.Free(c.Read())
					freed = 0
				}
			}
		}
	})
}

// An index that no correct program writes is an error, whatever it is; all others are not.
func FuzzIndex(f *testing.F) {
	f.Add(uint32(5), uint32(0))
	f.Add(uint32(0xffffffff), uint32(1))
	f.Add(uint32(4), uint32(5))
	f.Add(uint32(1), uint32(1<<31))
	f.Add(uint32(0), uint32(4))
	f.Fuzz(func(t *testing.T, producer, consumer uint32) {
		s := ring.ShapeFor(4, 16)
		b := mapping(t, s.Bytes())
		c := ring.NewConsumer(open(t, b, s))
		ring.Word(b, 0).Store(producer)
		k, err := c.Available()
		if bad := producer > 4; errors.Is(err, ring.ErrIndex) != bad || k > 4 {
			t.Errorf("producer at %d: %d available, %v", producer, k, err)
		}
		clear(b)
		p := ring.NewProducer(open(t, b, s), 4)
		for range 4 {
			if _, err := p.Next(); err != nil {
				t.Fatal(err)
			}
			p.Advance()
		}
		ring.Word(b, 1).Store(consumer)
		entry, err := p.Next()
		if bad := consumer > 4; errors.Is(err, ring.ErrIndex) != bad || err == nil && (entry == nil) != (consumer == 0) {
			t.Errorf("consumer at %d: %v, %v", consumer, entry, err)
		}
	})
}

// Look fixes what is left: entries that come later are not. An impossible index leaves none.
func TestLook(t *testing.T) {
	s := ring.ShapeFor(4, 16)
	b := mapping(t, s.Bytes())
	p, c := ring.NewProducer(open(t, b, s), 4), ring.NewConsumer(open(t, b, s))
	publish := func() {
		if _, err := p.Next(); err != nil {
			t.Fatal(err)
		}
		p.Advance()
		p.Publish()
	}
	publish()
	if c.Left() != 0 || !c.Changed() {
		t.Errorf("%d left before Look, changed: %v", c.Left(), c.Changed())
	}
	if err := c.Look(); err != nil || c.Left() != 1 {
		t.Fatalf("%d left, %v", c.Left(), err)
	}
	publish()
	if c.Left() != 1 {
		t.Errorf("%d left after another entry", c.Left())
	}
	if err := c.Look(); err != nil || c.Left() != 2 {
		t.Errorf("%d left after another Look, %v", c.Left(), err)
	}
	ring.Word(b, 0).Store(5)
	if err := c.Look(); !errors.Is(err, ring.ErrIndex) || c.Left() != 0 {
		t.Errorf("an impossible index: %d left, %v", c.Left(), err)
	}
}

func TestShapes(t *testing.T) {
	b := mapping(t, 1<<16)
	for _, s := range []ring.Shape{{}, {Entries: 3, EntryBytes: 16}, {Entries: 4, EntryBytes: 8}, {Entries: 4}, {Entries: 1 << 31, EntryBytes: 16}, {Entries: 4, EntryBytes: 1 << 20}} {
		if _, err := ring.Open(b, s); err == nil {
			t.Errorf("%+v was opened", s)
		}
	}
	s := ring.ShapeFor(100, 100)
	if s != (ring.Shape{Entries: 128, EntryBytes: 112}) {
		t.Errorf("%+v", s)
	}
	if _, err := ring.Open(b[:s.Bytes()-1], s); err == nil {
		t.Error("a ring that is longer than its memory")
	}
	if _, err := ring.Open(b[8:], s); err == nil {
		t.Error("a ring whose words are not aligned")
	}
}

// No ring of a doorbell is forgotten: every number that was set after the last Take is in the next.
func TestDoorbell(t *testing.T) {
	b := mapping(t, ring.DoorbellBytes)
	doorbell, err := ring.OpenDoorbell(b)
	if err != nil {
		t.Fatal(err)
	}
	const producers, rounds = 3, 3_000
	var counts [producers]chan int
	var all sync.WaitGroup
	for i := range producers {
		counts[i] = make(chan int, 1)
		all.Go(func() {
			for range rounds { // sets again only when the last one was seen
				doorbell.Set(uint32(i * 1365))
				<-counts[i]
			}
		})
	}
	for seen := 0; seen < producers*rounds; {
		doorbell.Take(nil, func(i uint32) {
			counts[i/1365] <- 1
			seen++
		})
		runtime.Gosched()
	}
	all.Wait()
	if doorbell.Any() {
		t.Error("a bit is left")
	}
}

// An entry goes from one side to the other.
func Example() {
	s := ring.ShapeFor(4, 16)
	b, err := unix.Mmap(-1, 0, s.Bytes(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer unix.Munmap(b)
	one, _ := ring.Open(b, s)
	other, _ := ring.Open(b, s) // in another process, with its own mapping
	p, c := ring.NewProducer(one, 4), ring.NewConsumer(other)

	entry, _ := p.Next()
	copy(entry, "work request")
	p.Advance()
	p.Publish()

	n, err := c.Available()
	got := make([]byte, s.EntryBytes)
	c.Copy(got)
	c.Free(c.Read())
	fmt.Println(n, err, string(got[:12]))
	// Output:
	// 1 <nil> work request
}

// Prefetch changes nothing, wherever the next entry is and whatever its length.
func TestPrefetch(t *testing.T) {
	for _, entryBytes := range []int{16, 80, 4096} {
		s := ring.ShapeFor(4, entryBytes)
		b := mapping(t, s.Bytes())
		p, c := ring.NewProducer(open(t, b, s), 4), ring.NewConsumer(open(t, b, s))
		got := make([]byte, s.EntryBytes)
		for i := range byte(9) {
			entry, err := p.Next()
			if err != nil {
				t.Fatal(err)
			}
			entry[len(entry)-1] = i
			p.Advance()
			p.Publish()
			c.Prefetch()
			if !c.Changed() || c.Look() != nil || c.Left() != 1 {
				t.Fatalf("entry %d of %d bytes: %d left", i, entryBytes, c.Left())
			}
			if c.Copy(got); got[len(got)-1] != i {
				t.Errorf("entry %d of %d bytes has %d", i, entryBytes, got[len(got)-1])
			}
			c.Free(c.Read())
		}
	}
}
