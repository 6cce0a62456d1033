// SPDX-License-Identifier: Apache-2.0

package sim

import "math/bits"

// tick is simulated time in picoseconds since the start.
type tick int64

const (
	nanosecond  tick = 1000
	forever     tick = 1<<62 - 1
	noIndex          = int32(-1)
	level0Max        = 14
	levelBits        = 10
	upperLevels      = 4
)

func (t tick) ns() int64 { return int64(t) / 1000 }

// evKind says what an event is, and what its owner is the number of.
type evKind uint8

const (
	evArrive   evKind = iota // packet: it has reached the other end of its wire
	evFree                   // port: may send again
	evSlot                   // slot: one of the kinds below
	evPace                   // pacer: its rate lets the next packet go
	evTimer                  // pacer: Control.Expire
	evRTO                    // flow
	evRcvTimer               // flow: Receiver.Expire
	evAckDelay               // flow: a coalesced ACK is due
	evHostTime               // host: Receiver.Expire(nil)
	evTurn                   // host: the receiver's turnaround is over for the first in line
	evStart                  // flow: its start
	evCall                   // a function of the scenario
)

// event is an entry of the wheel. It says all that is needed to begin with it, so
// that nothing else has to be fetched from memory to put it in and take it out.
type event struct {
	at   tick
	seq  uint32 // order of setting: what breaks ties
	what uint32 // kind and owner
}

const ownerBits = 28

func (e *event) kind() evKind { return evKind(e.what >> ownerBits) }
func (e *event) owner() int32 { return int32(e.what & (1<<ownerBits - 1)) }

func (e *event) before(b *event) bool {
	return e.at < b.at || e.at == b.at && int32(e.seq-b.seq) < 0
}

// chunk is a cache line of events in a bucket.
type chunk struct {
	events [3]event
	next   int32
	n      int32
	_      uint64
}

// wheel is a hierarchical timing wheel. The bottom level's buckets are so narrow
// that few events share one; these few are ordered in a heap when their turn
// comes. Setting and taking an event costs the same however many are pending,
// which is what keeps large networks as cheap per packet as small ones.
type wheel struct {
	now       tick
	slots     []slot
	free      []int32 // slots
	heap      []event
	chunks    []chunk
	freeChunk int32
	pos       int64 // number of the first bottom bucket not yet in the heap
	posAt     tick  // start of bucket pos
	seq       uint32
	live      int // events, those that carry nothing left out
	levels    [1 + upperLevels]level
}

// newWheel makes a wheel whose bottom buckets are about width wide.
func newWheel(width tick, bottomBits uint) *wheel {
	w := &wheel{freeChunk: noIndex}
	shift := uint(bits.Len64(uint64(max(width, 1)))) - 1
	for i := range w.levels {
		b := uint(levelBits)
		if i == 0 {
			b = bottomBits
		}
		l := &w.levels[i]
		l.shift, l.mask = shift, 1<<b-1
		l.heads = make([]int32, 1<<b)
		for j := range l.heads {
			l.heads[j] = noIndex
		}
		l.words = make([]uint64, 1<<b/64)
		l.sums = make([]uint64, (len(l.words)+63)/64)
		shift += b
	}
	return w
}

// put adds an event, which cannot be taken back.
func (w *wheel) put(at tick, kind evKind, owner int32) {
	w.live++
	w.seq++
	w.place(event{max(at, w.now), w.seq, uint32(kind)<<ownerBits | uint32(owner)})
}

func (w *wheel) place(e event) {
	if e.at < w.posAt {
		w.push(e)
		return
	}
	for i := range w.levels {
		l := &w.levels[i]
		idx := int64(e.at >> l.shift)
		ahead := idx - w.pos>>(l.shift-w.levels[0].shift)
		// Of an upper level the bucket of now is empty: its content moved down.
		if i == 0 && ahead > l.mask || ahead > l.mask+1 {
			if i < upperLevels {
				continue
			}
			idx -= ahead - l.mask // as far as the wheel goes, to be placed again then
		}
		w.add(l, idx&l.mask, e)
		return
	}
}

// add puts an event into a bucket.
func (w *wheel) add(l *level, b int64, e event) {
	l.count++
	head := l.heads[b]
	if head >= 0 {
		if c := &w.chunks[head]; int(c.n) < len(c.events) {
			c.events[c.n] = e
			c.n++
			return
		}
	} else {
		l.words[b>>6] |= 1 << (b & 63)
		l.sums[b>>12] |= 1 << (b >> 6 & 63)
	}
	id := w.freeChunk
	if id >= 0 {
		w.freeChunk = w.chunks[id].next
	} else {
		id = int32(len(w.chunks))
		if len(w.chunks) == cap(w.chunks) {
			w.chunks = grown(w.chunks, max(64, cap(w.chunks)))
		}
		w.chunks = append(w.chunks, chunk{})
	}
	c := &w.chunks[id]
	c.next, c.n = head, 1
	c.events[0] = e
	l.heads[b] = id
}

// advance puts the next bottom bucket with events into the heap. It returns false
// if nothing is pending by limit.
func (w *wheel) advance(limit tick) bool {
	l := &w.levels[0]
	for w.live > 0 && w.posAt <= limit {
		if b := l.find(w.pos & l.mask); b >= 0 {
			w.pass(w.pos&^l.mask + b + 1)
			for id := l.take(b); id >= 0; {
				c := &w.chunks[id]
				l.count -= int(c.n)
				for i := range c.events[:c.n] {
					w.push(c.events[i])
				}
				id = w.release(id)
			}
			if w.pos&l.mask == 0 {
				w.cascade(1, w.pos>>bitsOf(l.mask))
			}
			return true
		}
		w.nextRound()
	}
	return false
}

// pass declares the bottom buckets before pos to be in the heap.
func (w *wheel) pass(pos int64) { w.pos, w.posAt = pos, tick(pos)<<w.levels[0].shift }

// nextRound moves on when the rest of the bottom ring is empty: to the next round
// or, when nothing lies closer, straight to the next bucket of an upper level.
func (w *wheel) nextRound() {
	r := w.pos>>bitsOf(w.levels[0].mask) + 1
	i := 1
	for w.levels[0].count == 0 {
		l := &w.levels[i]
		if r&l.mask != 0 {
			if b := l.find(r & l.mask); b >= 0 {
				r = r&^l.mask + b
				break
			}
			r = r&^l.mask + l.mask + 1
		}
		if i == upperLevels || l.count > 0 {
			break
		}
		r >>= bitsOf(l.mask)
		i++
	}
	for ; i > 1; i-- {
		r <<= bitsOf(w.levels[i-1].mask)
	}
	w.pass(r << bitsOf(w.levels[0].mask))
	w.cascade(1, r)
}

// cascade moves a bucket of an upper level down, as its time has come.
func (w *wheel) cascade(i int, idx int64) {
	l := &w.levels[i]
	if idx&l.mask == 0 && i < upperLevels {
		w.cascade(i+1, idx>>bitsOf(l.mask))
	}
	for id := l.take(idx & l.mask); id >= 0; {
		c := w.chunks[id] // place may move them
		l.count -= int(c.n)
		id = w.release(id)
		for _, e := range c.events[:c.n] {
			w.place(e)
		}
	}
}

// release gives a chunk back, and returns the one behind it.
func (w *wheel) release(id int32) int32 {
	c := &w.chunks[id]
	next := c.next
	c.next = w.freeChunk
	w.freeChunk = id
	return next
}

func bitsOf(mask int64) uint { return uint(bits.Len64(uint64(mask))) }

// pop takes the next event if it is due by limit. What a slot was set to comes with
// the slot's kind and owner.
func (w *wheel) pop(limit tick) (evKind, int32, bool) {
	for {
		for len(w.heap) == 0 {
			if !w.advance(limit) {
				return 0, 0, false
			}
		}
		top := w.heap[0]
		if top.at > limit {
			return 0, 0, false
		}
		w.shrink()
		kind, owner := top.kind(), top.owner()
		if kind == evSlot {
			if !w.due(owner, &top) {
				continue
			}
			kind, owner = w.slots[owner].kind, w.slots[owner].owner
		}
		w.live--
		w.now = top.at
		return kind, owner, true
	}
}

func (w *wheel) push(e event) {
	w.heap = append(w.heap, e)
	h := w.heap
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = e
}

// shrink removes the heap's first entry.
func (w *wheel) shrink() {
	n := len(w.heap) - 1
	e := w.heap[n]
	w.heap = w.heap[:n]
	h := w.heap
	i := 0
	for {
		kid := 2*i + 1
		if kid >= n {
			break
		}
		if kid+1 < n && h[kid+1].before(&h[kid]) {
			kid++
		}
		if !h[kid].before(&e) {
			break
		}
		h[i] = h[kid]
		i = kid
	}
	if n > 0 {
		h[i] = e
	}
}
