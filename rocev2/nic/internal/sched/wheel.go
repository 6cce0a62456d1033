// SPDX-License-Identifier: Apache-2.0

package sched

// Wheel is a hierarchical timing wheel (Varghese and Lauck, 1987): setting
// and stopping a timer costs the same however many there are, and nothing
// allocates. Time is whatever the caller says it is.

import "math/bits"

// Tick is the resolution in nanoseconds: a timer fires up to so much late, and
// never early.
const Tick = 1 << tickShift

const (
	tickShift = 10
	slotBits  = 6
	slots     = 1 << slotBits
	levels    = 6 // 2^36 ticks, 19 hours; what is later is looked at before
)

// A Timer belongs to what waits, which embeds it. The zero value is stopped.
type Timer[T any] struct {
	at    int64 // ns, 0 = stopped
	Owner T     // value that Advance hands out

	next, prev *Timer[T]
	level      uint8
	slot       uint8
}

// At is when the timer fires, in nanoseconds; 0 if it is not set.
func (t *Timer[T]) At() int64 { return t.at }

// Wheel holds the timers that are set. Its zero value starts at time 0. It belongs
// to one goroutine.
type Wheel[T any] struct {
	now      int64 // current tick; all timers that were due until then have fired
	occupied [levels]uint64
	heads    [levels][slots]*Timer[T]
}

// Set has the timer fire at the given time, in nanoseconds and above zero, instead
// of whatever it was set to before. A time that has passed fires at the next tick.
func (w *Wheel[T]) Set(t *Timer[T], at int64) {
	w.Stop(t)
	t.at = max(at, 1)
	w.insert(t)
}

// Stop takes the timer back; one that is not set stays as it is.
func (w *Wheel[T]) Stop(t *Timer[T]) {
	if t.at == 0 {
		return
	}
	t.at = 0
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		w.heads[t.level][t.slot] = t.next
		if t.next == nil {
			w.occupied[t.level] &^= 1 << t.slot
		}
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.next, t.prev = nil, nil
}

// insert puts the timer where it is found at its time: on the lowest level whose
// slots still tell it from now.
func (w *Wheel[T]) insert(t *Timer[T]) {
	when := max((t.at+Tick-1)>>tickShift, w.now+1)
	level := (bits.Len64(uint64(when^w.now)|(slots-1)) - 1) / slotBits
	if level >= levels {
		level = levels - 1
		// Not the slot of now: next would take it for the first one.
		when = min(when, w.now+(slots-1)<<(slotBits*(levels-1)))
	}
	slot := when >> (slotBits * level) & (slots - 1)
	t.level, t.slot = uint8(level), uint8(slot)
	head := &w.heads[level][slot]
	t.next, t.prev = *head, nil
	if *head != nil {
		(*head).prev = t
	}
	*head = t
	w.occupied[level] |= 1 << slot
}

// Advance moves the time on to now and calls fire for every timer that is due,
// which is stopped by then. fire may set and stop any timer. Time does not go back:
// an earlier now does nothing.
func (w *Wheel[T]) Advance(now int64, fire func(T)) {
	until := now >> tickShift
	if until <= w.now {
		return
	}
	for {
		level, slot, when := w.next()
		if level < 0 || when > until {
			w.now = max(w.now, until)
			return
		}
		w.now = when
		head := &w.heads[level][slot]
		for t := *head; t != nil; t = *head {
			at := t.at
			w.Stop(t)
			if (at+Tick-1)>>tickShift > when {
				t.at = at
				w.insert(t) // closer now, so on a lower level
				continue
			}
			fire(t.Owner)
		}
	}
}

// Next is a time at which to call Advance: not after the first timer, and not
// long before it. 0 = no timer is set.
func (w *Wheel[T]) Next() int64 {
	level, _, when := w.next()
	if level < 0 {
		return 0
	}
	return when << tickShift
}

// next finds the slot whose turn is first. Slots of a lower level always come
// before those of a higher one.
func (w *Wheel[T]) next() (level, slot int, when int64) {
	for level = range levels {
		occupied := w.occupied[level]
		if occupied == 0 {
			continue
		}
		shift := slotBits * level
		current := int(w.now >> shift & (slots - 1))
		slot = (bits.TrailingZeros64(bits.RotateLeft64(occupied, -current)) + current) % slots
		when = w.now>>(shift+slotBits)<<(shift+slotBits) + int64(slot)<<shift
		if when <= w.now { // only the last level turns over
			when += 1 << (shift + slotBits)
		}
		return level, slot, when
	}
	return -1, 0, 0
}
