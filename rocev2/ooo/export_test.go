// SPDX-License-Identifier: Apache-2.0

package ooo

// SetNextID sets the id of the next message of a queue pair that has posted none.
func (q *QP) SetNextID(id uint32) {
	b := &q.snd.messages
	b.nextID, b.sendID, b.oldest = id, id, id
}

// RoundSamples returns how many answers the windows of all paths have counted in their rounds.
func (q *QP) RoundSamples() (n int) {
	for i := range q.snd.paths.list {
		n += int(q.snd.paths.list[i].window.samples)
	}
	return n
}
