// SPDX-License-Identifier: Apache-2.0

package task

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Origins are served in turn, and cores count their time, on virtual time.
func TestQueueOrder(t *testing.T) {
	q := queue{depth: 10, cores: make([]core, 2)}
	a, b := &origin{}, &origin{}
	put := func(o *origin, id ID) {
		j, _, _ := q.accept(o, Task{Descriptor: Descriptor{ID: id}})
		q.enqueue(o, j)
	}
	for id := range ID(3) {
		put(a, id)
	}
	put(b, 10)
	put(b, 11)
	var order []ID
	for i := range 5 {
		now := time.Duration(i) * time.Second
		j := q.start(now, i%2)
		order = append(order, j.task.Descriptor.ID)
		if got := q.counters(now + 2)[i%2].Busy; got != 2+time.Duration(i/2)*5 {
			t.Errorf("task %d: busy for %d ns so far", i, got)
		}
		var err *Error
		if i == 4 {
			err = &Error{Status: StatusFailed}
		}
		q.stop(now+5, i%2, err)
	}
	for i, id := range []ID{0, 10, 1, 11, 2} {
		if order[i] != id {
			t.Errorf("order %d", order)
			break
		}
	}
	if got := q.counters(time.Hour); got[0] != (CoreCounters{15, 3, 1}) || got[1] != (CoreCounters{10, 2, 0}) || q.start(0, 0) != nil {
		t.Errorf("%+v", got)
	}
}

// The window remembers each task that it must, over the wrap of ids. The model keeps all.
func TestWindowModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		q := queue{depth: 5, cores: make([]core, 1)}
		o := &origin{}
		latest := int64(rapid.SampledFrom([]ID{0, 1, 500, MaxID - 3, 1 << 23}).Draw(r, "first"))
		status := map[int64]Status{} // of tasks that have ended, by the id without wrap
		open := map[int64]*job{}
		first := true
		for range rapid.IntRange(1, 300).Draw(r, "steps") {
			if len(open) > 0 && rapid.IntRange(0, 2).Draw(r, "end") == 0 {
				for id, j := range open {
					s := Status(rapid.IntRange(0, 9).Draw(r, "status"))
					var err *Error
					if s != StatusOK {
						err = &Error{Status: s}
					}
					q.end(o, j, answerTo(ID(id)&MaxID, err))
					delete(open, id)
					status[id] = s
					break
				}
				continue
			}
			id := latest + rapid.OneOf(rapid.Int64Range(-3, 3), rapid.Int64Range(-2*History, History), rapid.Just(int64(-History))).Draw(r, "ahead")
			if id < 0 {
				continue
			}
			if first {
				latest, first = id, false
			}
			j, a, done := q.accept(o, Task{Descriptor: Descriptor{ID: ID(id) & MaxID}})
			old, ended := status[id]
			switch {
			case open[id] == nil && id <= latest-History:
				if a.Status != StatusStale {
					r.Fatalf("%d, the latest is %d: %s", id, latest, a.Status)
				}
				continue
			case ended:
				if !done || a.Status != old {
					r.Fatalf("%d: %s, had %s", id, a.Status, old)
				}
			case j == nil && done:
				if o.open < q.depth || a.Status != StatusBusy {
					r.Fatalf("%d, %d open: %s", id, o.open, a.Status)
				}
			case open[id] != nil:
				if j != nil || done {
					r.Fatalf("%d is taken twice", id)
				}
			default:
				if j == nil {
					r.Fatalf("%d is not taken: %s", id, a.Status)
				}
				open[id] = j
			}
			latest = max(latest, id)
		}
	})
}
