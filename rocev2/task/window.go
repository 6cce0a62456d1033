// SPDX-License-Identifier: Apache-2.0

package task

// History is how many task ids up to the latest one an origin remembers: the answers of these
// tasks are repeated when their descriptors are, and older ids are refused (StatusStale). Tasks
// that have not ended are remembered however old they are. So no id is executed twice, unless an
// origin skips half of all ids at once.
const History = 1024

// window has the state of the latest task ids of an origin.
type window struct {
	pending map[ID]*job // tasks that have not ended
	ended   [History]remembered
	latest  ID
	any     bool // there is a latest id
}

// remembered is the answer of a task that has ended.
type remembered struct {
	known  bool
	answer Answer
}

// admit moves the window forward to contain an id that is not pending. It returns false if the id
// is behind the window.
func (w *window) admit(id ID) bool {
	if !w.any {
		w.any, w.latest = true, id
	}
	ahead := id.after(w.latest)
	if ahead <= 0 {
		return ahead > -History
	}
	for i := range min(ahead, History) {
		w.ended[(id-ID(i))%History] = remembered{}
	}
	w.latest = id
	return true
}

// answer returns the answer of an id in the window, if its task has ended.
func (w *window) answer(id ID) (Answer, bool) {
	m := &w.ended[id%History]
	return m.answer, m.known
}

// end stores the answer of a pending task. One that has left the window is forgotten.
func (w *window) end(id ID, a Answer) {
	delete(w.pending, id)
	if id.after(w.latest) > -History {
		w.ended[id%History] = remembered{true, a}
	}
}
