// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestWheelOrder: whatever is set, moved and cancelled, events come in order of
// time, and those of one time in the order of their setting.
func TestWheelOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := tick(1) << rapid.UintRange(0, 20).Draw(t, "width")
		w := newWheel(width, 12)
		type want struct {
			at  tick
			seq int
		}
		pending := map[int32]want{}
		var slots []int32
		for range rapid.IntRange(1, 20).Draw(t, "slots") {
			slots = append(slots, w.newSlot(evCall, int32(len(slots))))
		}
		seq := 0
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			id := rapid.SampledFrom(slots).Draw(t, "slot")
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0, 1:
				far := rapid.UintRange(0, 58).Draw(t, "far")
				at := w.now + tick(rapid.Int64Range(0, 1<<far).Draw(t, "at"))
				w.set(id, at)
				seq++
				pending[id] = want{at, seq}
			case 2:
				w.cancel(id)
				delete(pending, id)
			case 3:
				limit := w.now + tick(rapid.Int64Range(0, 1<<40).Draw(t, "limit"))
				first, due := noIndex, false
				for id, p := range pending {
					if p.at > limit {
						continue
					}
					q := pending[first]
					if !due || p.at < q.at || p.at == q.at && p.seq < q.seq {
						first, due = id, true
					}
				}
				_, id, ok := w.pop(limit)
				if ok != due || ok && id != first {
					t.Fatalf("pop(%d) = %d, %v, want %d, %v", limit, id, ok, first, due)
				}
				if ok {
					if w.now != pending[id].at {
						t.Fatalf("now %d, want %d", w.now, pending[id].at)
					}
					delete(pending, id)
				}
			}
			if w.live != len(pending) {
				t.Fatalf("%d live, want %d", w.live, len(pending))
			}
		}
	})
}

// TestWheelManyAtOnce: a synchronised start puts everything into one bucket.
func TestWheelManyAtOnce(t *testing.T) {
	w := newWheel(1000, 12)
	var want []int32
	for i := range int32(10_000) {
		id := w.newSlot(evCall, i)
		w.set(id, 5_000_000)
		want = append(want, id)
	}
	var got []int32
	for _, id, ok := w.pop(forever); ok; _, id, ok = w.pop(forever) {
		got = append(got, id)
	}
	if !slices.Equal(got, want) {
		t.Fatal("events of one time did not come in the order of their setting")
	}
}

// TestWheelMoved: a timer that is put off again and again takes one place.
func TestWheelMoved(t *testing.T) {
	w := newWheel(1000, 12)
	id := w.newSlot(evCall, 7)
	for i := range tick(10_000) {
		w.set(id, 1_000_000+1000*i)
	}
	if len(w.chunks) != 1 || w.chunks[0].n != 1 || w.live != 1 {
		t.Fatalf("%d chunks, %d events in the first, %d live, want one of each", len(w.chunks), w.chunks[0].n, w.live)
	}
	if kind, owner, ok := w.pop(forever); kind != evCall || owner != 7 || !ok || w.now != 1_000_000+1000*9999 {
		t.Fatalf("pop = %d, %d, %v at %d", kind, owner, ok, w.now)
	}
}

func BenchmarkWheel(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000, 100_000} {
		b.Run("", func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			w := newWheel(max(1, 85_000*4/tick(n)), 14)
			for i := range n {
				w.set(w.newSlot(evCall, int32(i)), tick(r.Int64N(85_000)))
			}
			b.ReportMetric(float64(n), "pending")
			for b.Loop() {
				_, id, _ := w.pop(forever)
				w.set(id, w.now+tick(r.Int64N(170_000)))
			}
		})
	}
}
