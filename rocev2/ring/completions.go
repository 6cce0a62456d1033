// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// Values of the word armed of a completion ring.
const (
	ArmedSolicited = 1 // signal the next completion that is solicited or an error
	ArmedAny       = 2 // signal the next completion
)

// Completions is the server's side of a completion ring. Several threads write completions to the ring, each with a
// CompletionProducer. No thread waits for another one.
//
// Entries have numbers from 0 on. A producer takes the next numbers, writes these entries, and writes the word with
// the bit owner of each entry last. So the consumer finds a gap where an entry has a number and is not written yet,
// and finds nothing behind the gap before it is filled.
type Completions struct {
	ring    Ring
	size    uint64        // number of entries in use at most
	taken   atomic.Uint64 // number of entries that producers have taken
	free    atomic.Uint64 // number of entries that the consumer has freed, as its index has shown last
	alerted atomic.Uint64 // number of the entry behind the last ones with an alert
}

// NewCompletions returns the server's side of a completion ring with up to depth entries in use. The entries of the
// ring have wqe.CqeBytes.
func NewCompletions(r Ring, depth uint32) *Completions {
	return &Completions{ring: r, size: uint64(min(depth, r.Len()))}
}

// take takes up to n entries, as many as are free, and returns the number of the first one.
func (r *Completions) take(n uint64) (first, got uint64) {
	for {
		// No other thread takes entries between the two words, or the exchange fails: entries that were freed meanwhile
		// would be theirs, and an entry that this thread was promised would seem to be missing.
		taken := r.taken.Load()
		if got = min(n, r.limit(taken+n)-taken); r.taken.CompareAndSwap(taken, taken+got) {
			return taken, got
		}
	}
}

// limit returns the number of the first entry that is not free. It reads the consumer's index if that number is below
// end. An index that is not possible frees nothing.
func (r *Completions) limit(end uint64) uint64 {
	free := r.free.Load()
	if end <= free+r.size {
		return free + r.size
	}
	// The order of these three words is that of their values: a correct consumer's index is neither below what was
	// free before nor above what is taken after it was read, whatever other threads do meanwhile.
	index := free + uint64(r.ring.consumer.Load()-uint32(free))
	if index > r.taken.Load() {
		return free + r.size
	}
	raise(&r.free, index)
	return index + r.size
}

// raise sets a word to v, unless it is higher.
func raise(w *atomic.Uint64, v uint64) {
	for old := w.Load(); old < v && !w.CompareAndSwap(old, v); old = w.Load() {
	}
}

// write writes entries, from number first on.
func (r *Completions) write(first uint64, entries []byte) {
	for i := first; len(entries) > 0; i++ {
		from, to := entries[:wqe.CqeBytes], r.ring.entry(uint32(i))
		word := binary.NativeEndian.Uint64(from[wqe.OwnerAt:])
		if i&uint64(r.ring.Len()) == 0 { // first pass through the ring, third, and so on
			word |= wqe.OwnerMask
		}
		copy(to[:wqe.OwnerAt], from)
		copy(to[wqe.OwnerAt+8:], from[wqe.OwnerAt+8:])
		word64(to, wqe.OwnerAt).Store(word)
		entries = entries[wqe.CqeBytes:]
	}
}

// request takes the consumer's request for a signal, if entries from number first to end, which are written, are what
// it requests. One thread gets each request.
//
// A consumer that requests only alerts may have found a gap at first, with an alert behind it. Its next request is
// taken by the thread that fills the gap.
func (r *Completions) request(first, end uint64, alert bool) bool {
	if alert {
		raise(&r.alerted, end)
	}
	switch r.ring.armed.Load() {
	case ArmedAny:
	case ArmedSolicited:
		if r.alerted.Load() <= first {
			return false
		}
	default:
		return false
	}
	if r.ring.armed.Swap(0) == 0 {
		return false
	}
	r.ring.state.Add(1)
	return true
}

// CompletionProducer writes the completions of one thread to a completion ring. It has one user at a time. Completions
// are in memory of the producer before Publish.
type CompletionProducer struct {
	to     *Completions
	staged []byte // entries for Publish, as many as the ring has room for at most
	spare  [wqe.CqeBytes]byte
	lost   bool // there was one more entry: it was written to spare
}

// keptEntries is for how many entries a producer keeps memory.
const keptEntries = 1024

// NewProducer returns a producer of completions.
func (r *Completions) NewProducer() *CompletionProducer { return &CompletionProducer{to: r} }

// Next returns memory of wqe.CqeBytes for the next completion. The caller writes all of it; the bit owner is 0.
func (p *CompletionProducer) Next() []byte {
	n := len(p.staged)
	if uint64(n) >= p.to.size*wqe.CqeBytes {
		p.lost = true
		return p.spare[:]
	}
	p.staged = slices.Grow(p.staged, wqe.CqeBytes)[:n+wqe.CqeBytes]
	return p.staged[n:]
}

// Publish shows the consumer the completions since the last call, in their order. alert: one of them is solicited or an
// error. signal: the caller sends a signal to the consumer. The ring's State counts it. ok is false if the ring has no
// room for all of them, or the consumer's index is not possible: the last ones are lost.
func (p *CompletionProducer) Publish(alert bool) (signal, ok bool) {
	n := uint64(len(p.staged) / wqe.CqeBytes)
	first, got := p.to.take(n)
	p.to.write(first, p.staged[:got*wqe.CqeBytes])
	if p.staged = p.staged[:0]; cap(p.staged) > keptEntries*wqe.CqeBytes {
		p.staged = nil
	}
	ok = got == n && !p.lost
	p.lost = false
	return got > 0 && p.to.request(first, first+got, alert), ok
}

// CompletionConsumer is the process's side of a completion ring. It has one user at a time. The bit owner of an entry
// alone shows it that the entry is new.
type CompletionConsumer struct {
	Ring
	next uint32 // number of entries read, modulo 2^32
}

// NewCompletionConsumer returns the process's side of a completion ring whose entries have at least wqe.CqeBytes.
func NewCompletionConsumer(r Ring) *CompletionConsumer { return &CompletionConsumer{Ring: r} }

// Ready reports whether there is a completion to read.
func (c *CompletionConsumer) Ready() bool {
	owner := word64(c.entry(c.next), wqe.OwnerAt).Load()&wqe.OwnerMask != 0
	return owner == (c.next&c.Len() == 0)
}

// Copy copies the next completion to dst, of wqe.CqeBytes, and counts it as read. Ready has reported it. Its entry is
// not free before Free.
func (c *CompletionConsumer) Copy(dst []byte) {
	copy(dst, c.entry(c.next))
	c.next++
}

// Free shows the server that the entries of all completions that were read are free.
func (c *CompletionConsumer) Free() { c.consumer.Store(c.next) }

// Arm requests a signal: ArmedSolicited or ArmedAny. A request for any completion stays one. A consumer that is to
// sleep calls Ready once more after Arm, and sleeps if there is none.
func (c *CompletionConsumer) Arm(what uint32) {
	for now := c.armed.Load(); now < what && !c.armed.CompareAndSwap(now, what); now = c.armed.Load() {
	}
}
