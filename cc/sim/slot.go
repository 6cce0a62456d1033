// SPDX-License-Identifier: Apache-2.0

package sim

// slot is a timer that may be moved and cancelled. Its user owns a slot for
// each kind, so that setting it allocates nothing. Of all settings of a slot one
// event is in the wheel, its carrier. If the slot is set to later than that, it stays
// there and is put in anew when its time comes, with the seq of the setting. A carrier
// that comes too late is left behind, and its seq shows that it belongs to no slot.
type slot struct {
	at         tick // time that the slot is set to
	carrierAt  tick
	seq        uint32
	carrierSeq uint32
	owner      int32
	kind       evKind
	set        bool
	carried    bool // there is a carrier
}

// newSlot makes a slot, or takes up one that was given back.
func (w *wheel) newSlot(kind evKind, owner int32) int32 {
	if n := len(w.free); n > 0 {
		id := w.free[n-1]
		w.free = w.free[:n-1]
		s := &w.slots[id]
		s.kind, s.owner = kind, owner
		return id
	}
	if len(w.slots) == cap(w.slots) {
		w.slots = grown(w.slots, max(64, cap(w.slots)))
	}
	w.slots = append(w.slots, slot{kind: kind, owner: owner})
	return int32(len(w.slots) - 1)
}

// drop gives a slot back.
func (w *wheel) drop(id int32) {
	w.cancel(id)
	w.free = append(w.free, id)
}

// set makes the slot's event happen at a time, which replaces an earlier setting.
func (w *wheel) set(id int32, at tick) {
	s := &w.slots[id]
	if !s.set {
		s.set = true
		w.live++
	}
	w.seq++
	s.at, s.seq = max(at, w.now), w.seq
	if !s.carried || s.carrierAt > s.at {
		w.carry(id, s)
	}
}

// carry puts what the slot is set to into the wheel.
func (w *wheel) carry(id int32, s *slot) {
	s.carried, s.carrierAt, s.carrierSeq = true, s.at, s.seq
	w.place(event{s.at, s.seq, uint32(evSlot)<<ownerBits | uint32(id)})
}

// cancel makes the slot idle.
func (w *wheel) cancel(id int32) {
	if s := &w.slots[id]; s.set {
		s.set = false
		w.live--
	}
}

func (w *wheel) isSet(id int32) bool { return w.slots[id].set }

// due says whether an event that has come is that of the slot.
func (w *wheel) due(id int32, e *event) bool {
	s := &w.slots[id]
	switch {
	case !s.carried || s.carrierSeq != e.seq:
		return false
	case !s.set:
		s.carried = false
		return false
	case s.seq != e.seq:
		w.carry(id, s)
		return false
	}
	s.set, s.carried = false, false
	return true
}
