// SPDX-License-Identifier: Apache-2.0

package discovery

import "container/heap"

// queue is a heap of peers, ordered by the time of the next HELLO.
type queue []*peer

func (p *Peers) reschedule(x *peer, due uint64) {
	x.due = due
	heap.Fix(&p.queue, int(x.index))
}

// Len, Less, Swap, Push and Pop implement heap.Interface.

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due < q[j].due }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = int32(i), int32(j)
}

func (q *queue) Push(x any) {
	p := x.(*peer)
	p.index = int32(len(*q))
	*q = append(*q, p)
}

func (q *queue) Pop() any {
	old := *q
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return p
}
