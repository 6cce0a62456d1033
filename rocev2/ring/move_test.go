// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// emptyRing returns a completion ring, and its memory.
func emptyRing(t failer, depth int) (ring.Ring, []byte) {
	t.Helper()
	b := make([]byte, 1<<16) // Go's heap has objects of this size at the beginning of a page
	r, err := ring.Open(b, ring.ShapeFor(depth, wqe.CqeBytes))
	if err != nil {
		t.Fatal(err)
	}
	return r, b
}

// put publishes a completion with an ID.
func put(p *ring.CompletionProducer, id uint64) bool {
	wqe.EncodeCompletion(p.Next(), &verbs.Completion{WRID: id})
	_, ok := p.Publish(false)
	return ok
}

// take reads a completion and returns its ID.
func take(c *ring.CompletionConsumer) uint64 {
	var b [wqe.CqeBytes]byte
	c.Copy(b[:])
	c.Free()
	return wqe.DecodeCompletion(b[:]).WRID
}

// Completions that were not read are in the new ring, in their order, whatever was read before, however many come between
// the two steps of the move, and whether the new ring is larger or smaller.
func TestMove(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		depth := rapid.IntRange(1, 9).Draw(rt, "depth")
		r, _ := emptyRing(rt, depth)
		from := ring.NewCompletions(r, uint32(depth))
		p, c := from.NewProducer(), ring.NewCompletionConsumer(r)
		next, read := uint64(0), uint64(0) // IDs
		for range rapid.IntRange(1, 12).Draw(rt, "rounds") {
			for range rapid.IntRange(0, 9).Draw(rt, "puts") {
				if full := next-read == uint64(depth); full {
					break
				}
				if !put(p, next) {
					rt.Fatalf("no room, with %d of %d", next-read, depth)
				}
				next++
			}
			for range rapid.IntRange(0, 9).Draw(rt, "takes") {
				if next == read {
					break
				}
				if id := take(c); id != read {
					rt.Fatalf("completion %d, want %d", id, read)
				}
				read++
			}
			what := rapid.Uint32Range(0, ring.ArmedAny).Draw(rt, "armed")
			r.Armed().Store(what)
			newDepth := rapid.IntRange(1, 9).Draw(rt, "new depth")
			r2, _ := emptyRing(rt, newDepth)
			m, err := from.MoveTo(r2, uint32(newDepth))
			if err == nil {
				if next-read < uint64(depth) && rapid.Bool().Draw(rt, "between") {
					r.Armed().Store(0)
					put(p, next)
					next++
					r.Armed().Store(what)
				}
				var to *ring.Completions
				if to, err = m.Finish(); err == nil {
					if r2.Armed().Load() != what || r2.State().Load() != r.State().Load() {
						rt.Fatalf("armed %d, state %d", r2.Armed().Load(), r2.State().Load())
					}
					p.WriteTo(to)
					r, from, depth, c = r2, to, newDepth, ring.NewCompletionConsumer(r2)
				}
			}
			if full := next-read > uint64(newDepth); full != errors.Is(err, ring.ErrFull) || !full && err != nil {
				rt.Fatalf("%d completions to a ring of %d: %v", next-read, newDepth, err)
			}
			r.Armed().Store(0)
		}
		for ; read < next; read++ {
			if !c.Ready() {
				rt.Fatalf("completion %d is missing", read)
			}
			if id := take(c); id != read {
				rt.Fatalf("completion %d, want %d", id, read)
			}
		}
		if c.Ready() {
			rt.Fatal("a completion too many")
		}
	})
}

// An index of the process that is not possible is an error, and nothing moves.
func TestMoveWithDamagedIndex(t *testing.T) {
	r, b := emptyRing(t, 4)
	from := ring.NewCompletions(r, 4)
	p := from.NewProducer()
	put(p, 7)
	for _, index := range []uint32{2, 1 << 31, ^uint32(0)} {
		ring.Word(b, 1).Store(index)
		to, _ := emptyRing(t, 8)
		if _, err := from.MoveTo(to, 8); !errors.Is(err, ring.ErrIndex) {
			t.Errorf("index %#x: %v", index, err)
		}
	}
	ring.Word(b, 1).Store(0)
	if c := ring.NewCompletionConsumer(r); take(c) != 7 || c.Ready() {
		t.Error("the old ring has changed")
	}
}
