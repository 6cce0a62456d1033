// SPDX-License-Identifier: Apache-2.0

package engine

// wheel is a hierarchical timing wheel (Varghese and Lauck, 1987): setting
// and stopping a timer costs the same however many there are, and nothing
// allocates. Time is whatever the caller says it is.

import "math/bits"

// tick is the resolution in nanoseconds: a timer fires up to so much late, and
// never early.
const tick = 1 << tickShift

const (
	tickShift     = 10
	wheelSlotBits = 6
	wheelSlots    = 1 << wheelSlotBits
	wheelLevels   = 6 // 2^36 ticks, 19 hours; what is later is looked at before
)

// A timer belongs to what waits, which embeds it. The zero value is stopped.
type timer[T any] struct {
	at    int64 // ns, 0 = stopped
	Owner T     // value that Advance hands out

	next, prev *timer[T]
	level      uint8
	slot       uint8
}

// At is when the timer fires, in nanoseconds; 0 if it is not set.
func (t *timer[T]) At() int64 { return t.at }

// wheel holds the timers that are set. Its zero value starts at time 0. It belongs
// to one goroutine.
type wheel[T any] struct {
	now      int64 // current tick; all timers that were due until then have fired
	occupied [wheelLevels]uint64
	heads    [wheelLevels][wheelSlots]*timer[T]
}

// Set has the timer fire at the given time, in nanoseconds and above zero, instead
// of whatever it was set to before. A time that has passed fires at the next tick.
func (w *wheel[T]) Set(t *timer[T], at int64) {
	w.Stop(t)
	t.at = max(at, 1)
	w.insert(t)
}

// Stop takes the timer back; one that is not set stays as it is.
func (w *wheel[T]) Stop(t *timer[T]) {
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
// wheelSlots still tell it from now.
func (w *wheel[T]) insert(t *timer[T]) {
	when := max((t.at+tick-1)>>tickShift, w.now+1)
	level := (bits.Len64(uint64(when^w.now)|(wheelSlots-1)) - 1) / wheelSlotBits
	if level >= wheelLevels {
		level = wheelLevels - 1
		// Not the slot of now: next would take it for the first one.
		when = min(when, w.now+(wheelSlots-1)<<(wheelSlotBits*(wheelLevels-1)))
	}
	slot := when >> (wheelSlotBits * level) & (wheelSlots - 1)
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
func (w *wheel[T]) Advance(now int64, fire func(T)) {
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
			if (at+tick-1)>>tickShift > when {
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
func (w *wheel[T]) Next() int64 {
	level, _, when := w.next()
	if level < 0 {
		return 0
	}
	return when << tickShift
}

// next finds the slot whose turn is first. Slots of a lower level always come
// before those of a higher one.
func (w *wheel[T]) next() (level, slot int, when int64) {
	for level = range wheelLevels {
		occupied := w.occupied[level]
		if occupied == 0 {
			continue
		}
		shift := wheelSlotBits * level
		current := int(w.now >> shift & (wheelSlots - 1))
		slot = (bits.TrailingZeros64(bits.RotateLeft64(occupied, -current)) + current) % wheelSlots
		when = w.now>>(shift+wheelSlotBits)<<(shift+wheelSlotBits) + int64(slot)<<shift
		if when <= w.now { // only the last level turns over
			when += 1 << (shift + wheelSlotBits)
		}
		return level, slot, when
	}
	return -1, 0, 0
}
