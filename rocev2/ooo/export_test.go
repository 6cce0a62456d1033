// SPDX-License-Identifier: Apache-2.0

package ooo

// SetNextID sets the id of the next message of a queue pair that has posted none.
func (q *QP) SetNextID(id uint32) {
	b := &q.snd.messages
	b.nextID, b.sendID, b.oldest = id, id, id
}
