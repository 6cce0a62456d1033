// SPDX-License-Identifier: Apache-2.0

package device

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/ring"
)

// watchWorld is the engine's side of a process, without an engine, with some rings, and the other side.
type watchWorld struct {
	r         *rings
	doorbell  ring.Doorbell // the process's
	producers []*ring.Producer
}

func newWatchWorld(t *testing.T, queues int) *watchWorld {
	t.Helper()
	shape := ring.ShapeFor(8, 16)
	mapped := func(n int) []byte {
		b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Munmap(b) })
		return b
	}
	w := &watchWorld{r: &rings{feeder: &feeder{}}}
	var err error
	if w.doorbell, err = ring.OpenDoorbell(mapped(ring.DoorbellBytes)); err != nil {
		t.Fatal(err)
	}
	w.r.doorbell = w.doorbell
	for i := range queues {
		memory, err := ring.Open(mapped(shape.Bytes()), shape)
		if err != nil {
			t.Fatal(err)
		}
		w.producers = append(w.producers, ring.NewProducer(memory, 8))
		q := newQueue(w.r, memory, shape)
		q.number = uint32(i) // a queue is watched only after its doorbell has named it
		w.r.queues = append(w.r.queues, q)
	}
	return w
}

// post is what a process does for an entry. False: the ring is full.
func (w *watchWorld) post(i int, value uint64) bool {
	p := w.producers[i]
	entry, err := p.Next()
	if err != nil || entry == nil {
		return false
	}
	binary.NativeEndian.PutUint64(entry, value)
	p.Advance()
	p.Publish()
	if p.Watched().Load() == 0 {
		w.doorbell.Set(uint32(i))
	}
	return true
}

// taken takes what collect has found, and returns the values.
func (w *watchWorld) taken() (values []uint64) {
	for _, q := range w.r.sends {
		q.look()
		for q.in.Left() > 0 {
			q.in.Copy(q.entry)
			values = append(values, binary.NativeEndian.Uint64(q.entry))
		}
		q.in.Free(q.in.Read())
		q.r.pending[q.number/64] &^= 1 << (q.number % 64)
	}
	w.r.sends = nil
	return values
}

// No entry is lost, whenever the watch of its ring begins and ends: a process that rings no doorbell for
// it has it found.
func TestWatchFindsAll(t *testing.T) {
	const each, queues = 20_000, 3
	w := newWatchWorld(t, queues)
	var stop atomic.Bool
	var producers sync.WaitGroup
	defer producers.Wait()
	defer stop.Store(true)
	for i := range queues {
		producers.Go(func() {
			for v := uint64(0); v < each && !stop.Load(); {
				if w.post(i, uint64(i)<<32|v) {
					v++
				} else {
					runtime.Gosched()
				}
			}
		})
	}
	var next [queues]uint64
	watched := 0 // values that came while all rings were watched
	for got, end := 0, time.Now().Add(2*time.Minute); got < queues*each; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d of %d entries were found", got, queues*each)
		}
		q := w.r.queues[rand.IntN(queues)]
		if rand.IntN(2) == 0 {
			w.r.watch(q)
		} else {
			w.r.unwatch(q)
		}
		all := len(w.r.watched) == queues
		w.r.collect()
		for _, v := range w.taken() {
			if i := v >> 32; uint32(v) != uint32(next[i]) {
				t.Fatalf("queue %d has %d, want %d", i, uint32(v), next[i])
			}
			next[v>>32]++
			got++
			if all {
				watched++
			}
		}
	}
	if watched == 0 {
		t.Error("nothing came while all rings were watched")
	}
}

// A watched ring needs no doorbell, and is found as long as it is watched; one that has ended is not looked at.
func TestWatchEnds(t *testing.T) {
	w := newWatchWorld(t, 2)
	q, ended := w.r.queues[0], w.r.queues[1]
	w.r.watch(q)
	w.r.watch(ended)
	if !w.post(0, 1) || w.doorbell.Any() || !w.r.waiting() {
		t.Fatal("an entry of a watched ring has a doorbell, or is not found")
	}
	w.r.collect()
	if got := w.taken(); len(got) != 1 || w.r.waiting() {
		t.Fatalf("%d entries taken, waiting: %v", len(got), w.r.waiting())
	}
	w.post(0, 2)
	w.post(1, 3)
	ended.ended = true
	w.r.unwatch(ended)
	if len(w.r.sends) != 0 {
		t.Error("a ring that has ended is listed")
	}
	w.r.unwatch(q)
	if got := w.taken(); len(got) != 1 || got[0] != 2 || len(w.r.watched) != 0 {
		t.Errorf("%v found at the end of the watch of a ring with one and of one that has ended; %d are watched", got, len(w.r.watched))
	}
	if w.r.watch(ended); ended.watched {
		t.Error("a ring is watched that has ended")
	}
}

// The rings that are watched are few, and those that were used recently.
func TestWatchReview(t *testing.T) {
	w := newWatchWorld(t, maxWatched+1)
	for _, q := range w.r.queues {
		w.r.watch(q)
	}
	if len(w.r.watched) != maxWatched {
		t.Fatalf("%d are watched", len(w.r.watched))
	}
	w.post(0, 1)
	w.r.collect()
	w.taken()
	for range reviewEvery - 1 {
		w.r.review()
	}
	if len(w.r.watched) != maxWatched {
		t.Errorf("%d are watched before the review", len(w.r.watched))
	}
	w.r.review()
	if len(w.r.watched) != 1 || w.r.watched[0] != w.r.queues[0] || w.producers[1].Watched().Load() != 0 {
		t.Errorf("%d are watched after a review, of which one was used", len(w.r.watched))
	}
	for range reviewEvery {
		w.r.review()
	}
	if len(w.r.watched) != 0 {
		t.Error("a ring is watched that was not used since the last review")
	}
}

// An entry that comes between look and takeFrom, and whose doorbell collect has cleared, is taken in the next
// iteration, also of a ring that cannot be watched because others are.
func TestWatchLateEntry(t *testing.T) {
	w := newWatchWorld(t, maxWatched+1)
	for _, q := range w.r.queues[:maxWatched] {
		w.r.watch(q)
	}
	w.post(maxWatched, 1)
	w.r.collect()
	w.r.takeFrom(&w.r.sends, 1) // look has not seen the entry
	if !w.r.waiting() {
		t.Fatal("the entry is lost")
	}
	if got := w.taken(); len(got) != 1 || got[0] != 1 {
		t.Errorf("%v taken", got)
	}
}
