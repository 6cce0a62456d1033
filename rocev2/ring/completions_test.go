// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// failer is a test, of package testing or of rapid.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// completionRing returns both sides of a completion ring. Its memory is Go's, which the race detector sees.
func completionRing(t failer, depth int) (*ring.Completions, *ring.CompletionConsumer, []byte) {
	t.Helper()
	b := make([]byte, 1<<16) // Go's heap has objects of this size at the beginning of a page
	r, err := ring.Open(b, ring.ShapeFor(depth, wqe.CqeBytes))
	if err != nil {
		t.Fatal(err)
	}
	return ring.NewCompletions(r, uint32(depth)), ring.NewCompletionConsumer(r), b
}

// complete gives a producer the next completion: its number among those of the producer, and the producer.
func complete(p *ring.CompletionProducer, number, producer int) {
	wqe.EncodeCompletion(p.Next(), &verbs.Completion{WRID: uint64(number), QPN: uint32(producer), Op: verbs.OpSend})
}

// reader reads completions and checks that those of each producer come in order, each once.
type reader struct {
	t    failer
	c    *ring.CompletionConsumer
	next []int // number of the next completion of each producer
	all  int   // number of completions read
}

// read reads one completion, if there is one, and frees its entry.
func (r *reader) read() bool {
	if !r.c.Ready() {
		return false
	}
	var entry [wqe.CqeBytes]byte
	r.c.Copy(entry[:])
	got := wqe.DecodeCompletion(entry[:])
	if want := r.next[got.QPN]; got.WRID != uint64(want) || got.Op != verbs.OpSend {
		r.t.Fatalf("completion %d of producer %d, want %d", got.WRID, got.QPN, want)
	}
	r.next[got.QPN]++
	r.all++
	r.c.Free()
	return true
}

// Several threads complete to one ring, as many completions as there is room for. Each completion arrives once, those of
// a thread arrive in order, and each request for a signal gets one signal. A lost signal leaves the consumer asleep.
func TestSeveralProducers(t *testing.T) {
	for _, depth := range []int{1, 2, 3, 64} {
		for what, name := range map[uint32]string{ring.ArmedAny: "any", ring.ArmedSolicited: "solicited"} {
			t.Run(fmt.Sprintf("%s/%d", name, depth), func(t *testing.T) { severalProducers(t, depth, what) })
		}
	}
}

func severalProducers(t *testing.T, depth int, what uint32) {
	const producers, each = 4, 3_000
	to, c, b := completionRing(t, depth)
	free := make(chan struct{}, depth) // has a value for each free entry
	for range depth {
		free <- struct{}{}
	}
	// take takes a free entry. It waits for the first of a batch.
	take := func(first bool) bool {
		if first {
			<-free
			return true
		}
		select {
		case <-free:
			return true
		default:
			return false
		}
	}
	signals := make(chan error, 2*producers) // a signal is nil
	var all sync.WaitGroup
	for producer := range producers {
		rng := rand.New(rand.NewPCG(uint64(producer), uint64(depth)))
		p := to.NewProducer()
		all.Go(func() {
			for number := 0; number < each; {
				for i := range 1 + rng.IntN(4) {
					if number == each || !take(i == 0) {
						break
					}
					complete(p, number, producer)
					number++
				}
				// The consumer may sleep until an alert. So there is one at the end, and one if the ring is full.
				alert := rng.IntN(4) == 0 || number == each || len(free) == 0
				signal, ok := p.Publish(alert)
				if !ok {
					signals <- fmt.Errorf("no room in a ring of %d", depth)
					return
				}
				if signal {
					signals <- nil
				}
			}
		})
	}
	r := &reader{t: t, c: c, next: make([]int, producers)}
	requested := false
	for r.all < producers*each {
		switch {
		case r.read():
			free <- struct{}{}
		case !requested:
			if len(signals) > 0 {
				if err := <-signals; err != nil {
					t.Fatal(err)
				}
				t.Fatal("a second signal for one request")
			}
			c.Arm(what)
			requested = true
		default:
			if err := testkit.Receive(t, fmt.Sprintf("a signal after %d completions", r.all), signals); err != nil {
				t.Fatal(err)
			}
			requested = false
		}
	}
	all.Wait()
	if r.read() {
		t.Error("a completion that nobody has written")
	}
	got := len(signals)
	if ring.Word(b, 2).Load() != 0 {
		got++ // the request is still there
	}
	if want := map[bool]int{true: 1}[requested]; got != want {
		t.Errorf("%d signals after the last one that was received, want %d", got, want)
	}
}

// A ring that overruns has the first completions of each thread, in order and without a gap, and as many as it has
// room for. It has room again when the consumer has read some.
func TestOverrun(t *testing.T) {
	const producers = 3
	for _, depth := range []int{1, 3, 64} {
		to, c, _ := completionRing(t, depth)
		r := &reader{t: t, c: c, next: make([]int, producers)}
		var given [producers]int
		for range 5 { // times that the ring overruns
			var all sync.WaitGroup
			for producer := range producers {
				all.Go(func() {
					p := to.NewProducer()
					for number := r.next[producer]; ; number += 2 {
						complete(p, number, producer)
						complete(p, number+1, producer)
						if _, ok := p.Publish(false); !ok {
							given[producer] = number + 2
							return
						}
					}
				})
			}
			all.Wait()
			before := r.all
			for r.read() {
			}
			if n := r.all - before; n != depth {
				t.Fatalf("%d completions in a ring of %d that has overrun", n, depth)
			}
			for producer, n := range r.next {
				if last := given[producer]; n != last-1 && n != last-2 {
					t.Errorf("%d completions of a producer whose last two of %d did not fit", n, last)
				}
			}
		}
	}
}

// While the consumer reads, threads write until the ring overruns for each of them. What they have written before arrives.
func TestOverrunWhileRead(t *testing.T) {
	const producers, each = 3, 2_000
	to, c, _ := completionRing(t, 8)
	var shown [producers]int
	var all sync.WaitGroup
	for producer := range producers {
		all.Go(func() {
			p := to.NewProducer()
			for ; shown[producer] < each; shown[producer]++ {
				complete(p, shown[producer], producer)
				if _, ok := p.Publish(false); !ok {
					return
				}
				runtime.Gosched()
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	r := &reader{t: t, c: c, next: make([]int, producers)}
	for writing := true; writing; {
		select {
		case <-ended:
			writing = false
		default:
		}
		for r.read() {
		}
		runtime.Gosched()
	}
	for producer, n := range r.next {
		if n != shown[producer] {
			t.Errorf("%d completions of producer %d, which has shown %d", n, producer, shown[producer])
		}
	}
}

// An index that no correct consumer writes frees no entry, whatever it is.
func TestConsumerIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const depth, read, written = 4, 2, 6 // the server knows that two completions of six were read
		to, c, b := completionRing(t, depth)
		p := to.NewProducer()
		publish := func(number int) bool {
			complete(p, number, 0)
			_, ok := p.Publish(false)
			return ok
		}
		r := &reader{t: t, c: c, next: make([]int, 1)}
		for number := range written {
			if !publish(number) {
				t.Fatal("no room")
			}
			if number < read {
				r.read()
			}
		}
		index := rapid.OneOf(rapid.Uint32Range(0, 10), rapid.Uint32()).Draw(t, "index")
		ring.Word(b, 1).Store(index)
		free := 0
		if index > read && index <= written {
			free = int(index - read)
		}
		for number := range depth + 1 {
			if ok := publish(written + number); ok != (number < free) {
				t.Fatalf("completion %d of %d that fit: %v", number+1, free, ok)
			}
		}
	})
}

// A completion costs no allocation, written and read.
func TestCompletionAllocations(t *testing.T) {
	to, c, _ := completionRing(t, 16)
	p := to.NewProducer()
	r := &reader{t: t, c: c, next: make([]int, 1)}
	number := 0
	if n := testing.AllocsPerRun(100, func() {
		for range 8 {
			complete(p, number, 0)
			number++
		}
		p.Publish(false)
		for r.read() {
		}
	}); n != 0 || r.all != number {
		t.Errorf("%v allocations; %d completions of %d", n, r.all, number)
	}
}

// BenchmarkCompletions writes completions in batches and reads them, in one thread.
func BenchmarkCompletions(b *testing.B) {
	for _, batch := range []int{1, 16} {
		b.Run(fmt.Sprint(batch), func(b *testing.B) {
			to, c, _ := completionRing(b, 64)
			p := to.NewProducer()
			w := verbs.Completion{WRID: 1, QPN: 2, Op: verbs.OpSend}
			entry := make([]byte, wqe.CqeBytes)
			for b.Loop() {
				for range batch {
					wqe.EncodeCompletion(p.Next(), &w)
				}
				p.Publish(false)
				for c.Ready() {
					c.Copy(entry)
				}
				c.Free()
			}
		})
	}
}
