// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// These tests stop a thread between the steps of CompletionProducer.Publish, as the scheduler may do.

// openCompletions returns both sides of a completion ring.
func openCompletions(t *testing.T, depth uint32) (*Completions, *CompletionConsumer) {
	t.Helper()
	s := ShapeFor(int(depth), wqe.CqeBytes)
	b := make([]byte, s.Bytes()+line)
	r, err := Open(b[-uintptr(unsafe.Pointer(&b[0]))%line:], s)
	if err != nil {
		t.Fatal(err)
	}
	return NewCompletions(r, depth), NewCompletionConsumer(r)
}

// completion is an entry with an ID, without the bit owner.
func completion(id uint64) []byte {
	entry := make([]byte, wqe.CqeBytes)
	wqe.Cqe(entry).SetWrId(id)
	return entry
}

// publish shows one completion and reports whether the consumer is to be signalled.
func publish(t *testing.T, r *Completions, id uint64, alert bool) (signal bool) {
	t.Helper()
	p := r.NewProducer()
	copy(p.Next(), completion(id))
	signal, ok := p.Publish(alert)
	if !ok {
		t.Fatalf("no room for completion %d", id)
	}
	return signal
}

// expect reads completions with these IDs, and finds no others.
func expect(t *testing.T, c *CompletionConsumer, ids ...uint64) {
	t.Helper()
	entry := make([]byte, wqe.CqeBytes)
	for _, id := range ids {
		if !c.Ready() {
			t.Fatalf("completion %d is not there", id)
		}
		if c.Copy(entry); wqe.Cqe(entry).WrId() != id {
			t.Fatalf("completion %d, want %d", wqe.Cqe(entry).WrId(), id)
		}
	}
	if c.Ready() {
		t.Fatal("a completion that nobody has written")
	}
	c.Free()
}

// Each entry is taken by one thread, and none is left out.
func TestTakenOnce(t *testing.T) {
	const threads, each = 4, 200_000
	r := &Completions{size: threads * each} // the consumer's index is not read
	taken := make([]atomic.Bool, threads*each)
	var all sync.WaitGroup
	for range threads {
		all.Go(func() {
			for range each {
				if first, n := r.take(1); n != 1 || taken[first].Swap(true) {
					t.Errorf("%d entries at %d were taken, or it was taken twice", n, first)
					return
				}
			}
		})
	}
	all.Wait()
}

// The consumer reads no completion behind an entry that is not written yet.
func TestGap(t *testing.T) {
	r, c := openCompletions(t, 4)
	for id := uint64(0); id < 40; id += 2 { // several passes through the ring
		first, n := r.take(1)
		if n != 1 {
			t.Fatal("no room")
		}
		publish(t, r, id+1, false)
		expect(t, c)
		r.write(first, completion(id))
		expect(t, c, id, id+1)
	}
}

// One thread gets a request for a signal, although two have written completions since.
func TestOneSignal(t *testing.T) {
	for _, what := range []uint32{ArmedSolicited, ArmedAny} {
		r, c := openCompletions(t, 4)
		c.Arm(what)
		r.take(2)
		r.write(0, completion(1))
		r.write(1, completion(2))
		first, second := r.request(0, 1, true), r.request(1, 2, true)
		if !first || second || c.State().Load() != 1 {
			t.Errorf("request %d: the signals are %v and %v, and %d are counted", what, first, second, c.State().Load())
		}
		expect(t, c, 1, 2)
	}
}

// A consumer that requests only alerts and finds a gap in front of one gets a signal when the gap is filled, by a
// completion that is no alert.
func TestAlertBehindGap(t *testing.T) {
	r, c := openCompletions(t, 4)
	c.Arm(ArmedSolicited)
	first, _ := r.take(1)
	if !publish(t, r, 2, true) {
		t.Fatal("no signal for an alert")
	}
	expect(t, c)
	c.Arm(ArmedSolicited)
	r.write(first, completion(1))
	if !r.request(first, first+1, false) {
		t.Fatal("the consumer sleeps although there is an alert")
	}
	expect(t, c, 1, 2)
	c.Arm(ArmedSolicited)
	if publish(t, r, 3, false) {
		t.Error("a signal for a completion that is no alert")
	}
}

// The numbers of entries may pass 2^32, the range of the consumer's index.
func TestNumbersPass32Bits(t *testing.T) {
	const before = 1<<32 - 10
	r, c := openCompletions(t, 4)
	r.taken.Store(before)
	r.free.Store(before)
	c.next = before & (1<<32 - 1)
	c.Free()
	for i := range r.ring.entries { // as after an odd number of passes
		r.ring.entries[i] = 0xff
	}
	for id := uint64(before); id < before+20; id += 4 {
		for i := range uint64(4) {
			publish(t, r, id+i, false)
		}
		expect(t, c, id, id+1, id+2, id+3)
	}
}

// The memory for a batch of very many completions is not kept.
func TestStagedMemory(t *testing.T) {
	r, c := openCompletions(t, 1<<12)
	p := r.NewProducer()
	for id := range uint64(keptEntries + 1) {
		copy(p.Next(), completion(id))
	}
	if _, ok := p.Publish(false); !ok || p.staged != nil {
		t.Errorf("memory for %d completions is kept", cap(p.staged)/wqe.CqeBytes)
	}
	for range keptEntries + 1 {
		c.Copy(make([]byte, wqe.CqeBytes))
	}
	if c.Ready() {
		t.Error("too many completions")
	}
}

// What a producer stages has at most the entries that the ring has room for. The completions behind them are lost, and
// the next ones are not.
func TestStagedAtMostDepth(t *testing.T) {
	const depth = 4
	r, c := openCompletions(t, depth)
	p := r.NewProducer()
	for range 2 {
		for range 3 * depth {
			clear(p.Next())
		}
		if len(p.staged) != depth*wqe.CqeBytes {
			t.Fatalf("%d bytes are staged for a ring of %d entries", len(p.staged), depth)
		}
		if _, ok := p.Publish(false); ok {
			t.Error("completions without room are not reported")
		}
		for range depth {
			if !c.Ready() {
				t.Fatal("a completion with room is lost")
			}
			c.Copy(make([]byte, wqe.CqeBytes))
		}
		c.Free()
	}
	clear(p.Next())
	if _, ok := p.Publish(false); !ok {
		t.Error("a completion after lost ones is reported as lost")
	}
}
