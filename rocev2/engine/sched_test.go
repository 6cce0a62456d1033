// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// order returns the owners in the order of their service.
func order[T any](q *drrQueue[T]) (all []T) {
	for f := q.first; f != nil; f = f.next {
		all = append(all, f.owner)
	}
	return all
}

// Against a plain slice: flows are served in the order in which they came, whichever
// are removed or rotated in between.
func TestQueueOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q drrQueue[int]
		var want []int
		flows := make([]drrFlow[int], 8)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, len(flows)-1).Draw(t, "flow")
			f := &flows[i]
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				if !f.Queued() {
					q.Enqueue(f, i+1, 100)
					want = append(want, i+1)
				}
			case 1:
				if f.Queued() {
					q.Remove(f)
					want = slices.DeleteFunc(want, func(o int) bool { return o == i+1 })
				}
			case 2:
				if !q.Empty() {
					q.Dequeue()
					want = want[1:]
				}
			case 3:
				if !q.Empty() {
					q.Rotate(100)
					want = append(want[1:len(want):len(want)], want[0])
				}
			}
			first := 0
			if len(want) > 0 {
				first = want[0]
			}
			if got := order(&q); !slices.Equal(got, want) || q.First() != first || q.Empty() != (len(want) == 0) || q.Others() != (len(want) > 1) {
				t.Fatalf("%v, want %v", got, want)
			}
			for i := range flows {
				if f := &flows[i]; f.Queued() != slices.Contains(want, i+1) {
					t.Fatalf("flow %d says queued %v", i+1, f.Queued())
				}
			}
		}
	})
}

// Flows get the same share whatever the sizes of their packets are.
func TestFlowsFairShare(t *testing.T) {
	const quantum = 16 << 10
	size := [...]int32{4170, 90, 9000}
	var q drrQueue[int]
	var flows [len(size)]drrFlow[int]
	var sent [len(size)]int
	for i := range flows {
		q.Enqueue(&flows[i], i, quantum)
	}
	for range 100_000 {
		i := q.First()
		sent[i] += int(size[i])
		if q.Charge(size[i]) <= 0 {
			q.Rotate(quantum)
		}
	}
	if low, high := slices.Min(sent[:]), slices.Max(sent[:]); float64(low) < .95*float64(high) {
		t.Errorf("sent %v bytes", sent)
	}
}

// What a flow has sent too much is deducted once: a new service begins with a whole
// quantum.
func TestDeficit(t *testing.T) {
	var q drrQueue[int]
	var f drrFlow[int]
	q.Enqueue(&f, 1, 100)
	if left := q.Charge(130); left != -30 || q.Remaining() != -30 {
		t.Errorf("%d remain after 130 of 100", left)
	}
	if q.Rotate(100); q.Remaining() != 70 {
		t.Errorf("%d remain of the next quantum, want 70", q.Remaining())
	}
	q.Dequeue()
	if q.Enqueue(&f, 1, 100); q.Remaining() != 100 {
		t.Errorf("%d remain of a new quantum, want 100", q.Remaining())
	}
}

// A flow that nobody waits behind owes no more than its last packet, however much it has sent.
func TestDeficitAlone(t *testing.T) {
	const size = 4170
	var q drrQueue[int]
	var f drrFlow[int]
	q.Enqueue(&f, 1, 16<<10)
	for sent := 0; sent < 3<<30; sent += size { // more than the deficit has bits for
		if left := q.Charge(size); left < -size || left > 16<<10 {
			t.Fatalf("%d remain after %d bytes", left, sent+size)
		}
	}
}

func TestList(t *testing.T) {
	var l fifo[int]
	links := make([]fifoLink[int], 4)
	for i := range links {
		l.Push(&links[i], i)
	}
	if all := slices.Collect(l.All); !slices.Equal(all, []int{0, 1, 2, 3}) {
		t.Errorf("the list has %v", all)
	}
	for i := range links {
		if got := l.Pop(); got != i {
			t.Errorf("%d comes out, want %d", got, i)
		}
		if i == 1 {
			l.Push(&links[0], 0)
		}
		if i == 2 {
			break
		}
	}
	if a, b := l.Pop(), l.Pop(); a != 3 || b != 0 || !l.Empty() {
		t.Errorf("then %d and %d, empty %v; want 3 and 0", a, b, l.Empty())
	}
}

func TestSchedNoAllocations(t *testing.T) {
	var q drrQueue[int]
	var flows [2]drrFlow[int]
	if n := testing.AllocsPerRun(100, func() {
		q.Enqueue(&flows[0], 1, 10)
		q.Enqueue(&flows[1], 2, 10)
		q.Charge(20)
		q.Rotate(10)
		q.Dequeue()
		q.Dequeue()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
