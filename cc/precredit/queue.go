// SPDX-License-Identifier: Apache-2.0

package precredit

// Class is what the classifier says of a flow (S5.3).
type Class uint8

// The classes.
const (
	Small Class = iota // first class
	Large              // second class
	classes
)

func (c Class) String() string {
	if c == Small {
		return "small"
	}
	return "large"
}

// Flow is a flow of a sender. The zero value has no data and waits for nothing. It must not
// be copied while it waits for pre-credit.
type Flow struct {
	// Data is the caller's own.
	Data any
	// Packet is the payload of a full packet, bytes. A Sender needs it.
	Packet uint32

	class      Class
	since      uint64 // the round in which it came
	left       uint32 // bytes that wait for pre-credit
	prev, next *Flow
	in         *Queue

	// The fields below are a Sender's.
	features Features // features of the posted data
	queued   uint32   // bytes that waited for pre-credit so far, sent or not
	capped   bool     // more was posted than it may send on pre-credit
	begun    bool     // no ACK yet
	asked    bool     // an ACK was requested for its first data
	waiting  bool     // the flow is in Sender.waiting
}

// begin makes it a new flow.
func (f *Flow) begin() {
	f.features, f.queued, f.capped, f.begun, f.asked = Features{}, 0, false, true, false
}

// Begun reports whether the flow has data and no ACK yet.
func (f *Flow) Begun() bool { return f.begun }

// Class is the class that it was last queued with.
func (f *Flow) Class() Class { return f.class }

// Left is how many of its bytes wait.
func (f *Flow) Left() uint32 { return f.left }

// Queue is the sender's priority queue of S5.4. A flow's priority is
//
//	that of its class + AgingStep × the rounds that it has waited
//
// and the highest is served first; of equals the one that has waited longest, then
// the small one. As all that wait age alike, priorities never change places within a
// class: a first-in first-out queue for each class, of which only the heads are
// compared, is the whole structure, and a round costs one increment.
//
// Nobody starves: a large flow is behind the small ones that came up to SmallBias / AgingStep
// rounds after it, and before all later ones.
type Queue struct {
	// SmallBias is how far the small class is ahead of the large one, AgingStep what a
	// round adds. Set them before the first Push. A AgingStep of 0 counts as 1.
	SmallBias, AgingStep uint32

	round uint64
	heads [classes]*Flow
	tails [classes]*Flow
	size  int
}

// Defaults of the queue: a large flow waits for small ones for eight rounds.
const (
	DefaultSmallBias = 8
	DefaultAgingStep = 1
)

func (q *Queue) agingStep() uint64 { return uint64(max(q.AgingStep, 1)) }

// Len is how many flows wait.
func (q *Queue) Len() int { return q.size }

// Push queues n bytes of a flow, or n more if it waits already: then it keeps its
// class and its place. No bytes need no place.
func (q *Queue) Push(f *Flow, c Class, n uint32) {
	switch {
	case n == 0:
		return
	case f.in != nil:
		f.left += n
		return
	}
	f.class, f.left, f.since, f.in = c, n, q.round, q
	f.prev, f.next = q.tails[c], nil
	if f.prev != nil {
		f.prev.next = f
	} else {
		q.heads[c] = f
	}
	q.tails[c] = f
	q.size++
}

// Drop takes a flow out, as at its first ACK: what was left needs no pre-credit any
// more. It is harmless for a flow that does not wait.
func (q *Queue) Drop(f *Flow) {
	if f.in != q {
		return
	}
	if f.prev != nil {
		f.prev.next = f.next
	} else {
		q.heads[f.class] = f.next
	}
	if f.next != nil {
		f.next.prev = f.prev
	} else {
		q.tails[f.class] = f.prev
	}
	f.prev, f.next, f.in, f.left = nil, nil, nil, 0
	q.size--
}

// Pass notes that n bytes of a flow went out otherwise: they wait no more.
func (q *Queue) Pass(f *Flow, n uint32) {
	if f.in != q {
		return
	}
	if f.left -= min(n, f.left); f.left == 0 {
		q.Drop(f)
	}
}

// Head is the flow of the highest priority, nil if none waits.
func (q *Queue) Head() *Flow {
	s, l := q.heads[Small], q.heads[Large]
	switch {
	case s == nil:
		return l
	case l == nil:
		return s
	}
	// The terms that both have in common, step × round, are left out.
	ps, pl := uint64(q.SmallBias)+q.agingStep()*l.since, q.agingStep()*s.since
	if ps > pl || ps == pl && s.since <= l.since {
		return s
	}
	return l
}

// Take takes up to n bytes from the head, a packet at most packet bytes long, and
// returns how many. It is 0 if the next packet is longer than n: a shorter one of
// another flow must not slip past, or long packets would wait for ever.
func (q *Queue) Take(n, packet uint32) (f *Flow, taken uint32) {
	f = q.Head()
	if f == nil {
		return nil, 0
	}
	taken = min(f.left, packet)
	if taken > n {
		return nil, 0
	}
	if f.left -= taken; f.left == 0 {
		q.Drop(f)
	}
	return f, taken
}

// Round ends a round: whatever still waits has its priority raised by AgingStep.
func (q *Queue) Round() { q.round++ }
