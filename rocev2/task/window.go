// SPDX-License-Identifier: Apache-2.0

package task

// History is how many task ids behind the latest one an origin's state covers: the answers of
// these tasks are repeated when their descriptors are, and older ids are refused (StatusStale).
// So no id is executed twice, unless an origin skips half of all ids at once.
const History = 1024

// window has the state of the latest task ids of an origin.
type window struct {
	slots  [History]slot
	latest ID
	any    bool // there is a latest id
}

type slot struct {
	id     ID
	state  state
	answer Answer // of a task that has ended
	job    *job   // of one that has not
}

// state is how far a task is.
type state uint8

const (
	absent  state = iota // the id was not used
	pending              // taken, and not ended
	ended
)

// at returns the slot of an id in the window.
func (w *window) at(id ID) *slot { return &w.slots[id%History] }

// admit moves the window forward to contain the id, and returns its slot. The status is
// StatusStale for an id behind the window, and StatusBusy if a task that has not ended would
// leave the window.
func (w *window) admit(id ID) (*slot, Status) {
	if !w.any {
		w.any, w.latest = true, id
		*w.at(id) = slot{id: id}
		return w.at(id), StatusOK
	}
	ahead := id.after(w.latest)
	if ahead <= -History {
		return nil, StatusStale
	}
	if ahead <= 0 {
		s := w.at(id)
		if s.id != id { // never used
			*s = slot{id: id}
		}
		return s, StatusOK
	}
	for i := range min(ahead, History) {
		if w.at(id-ID(i)).state == pending {
			return nil, StatusBusy
		}
	}
	for i := range min(ahead, History) {
		between := (id - ID(i)) & MaxID
		*w.at(between) = slot{id: between}
	}
	w.latest = id
	return w.at(id), StatusOK
}
