// SPDX-License-Identifier: Apache-2.0

package precredit

import "container/heap"

// list is the list of S5.2: the senders that hold pre-credit, the largest share
// first. Of equal shares the one that was given first stands in front, so that the
// order is the same wherever the same things happen, and shares that all have one
// size change hands in turn. It is a heap that knows its members' places: the rules
// ask for the head only, and every change costs O(log n).
type list []*grantee

func (l list) Len() int { return len(l) }

func (l list) Less(i, j int) bool {
	if l[i].share != l[j].share {
		return l[i].share > l[j].share
	}
	return l[i].order < l[j].order
}

func (l list) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].place, l[j].place = i, j
}

func (l *list) Push(x any) {
	p := x.(*grantee)
	p.place = len(*l)
	*l = append(*l, p)
}

func (l *list) Pop() any {
	old := *l
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*l = old[:len(old)-1]
	p.place = nowhere
	return p
}

// nowhere is the place of a grantee that is not in the list.
const nowhere = -1

// give puts a grantee into the list with a share.
func (l *list) give(p *grantee, share uint32, order uint64) {
	p.share, p.order = share, order
	heap.Push(l, p)
}

// take removes a grantee and returns its share.
func (l *list) take(p *grantee) (share uint32) {
	heap.Remove(l, p.place)
	share, p.share = p.share, 0
	return share
}

// timers is a heap of the grantees by when they are due.
type timers []*grantee

func (t timers) Len() int { return len(t) }

func (t timers) Less(i, j int) bool {
	if t[i].dueNs != t[j].dueNs {
		return t[i].dueNs < t[j].dueNs
	}
	return t[i].born < t[j].born
}

func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].timer, t[j].timer = i, j
}

func (t *timers) Push(x any) {
	p := x.(*grantee)
	p.timer = len(*t)
	*t = append(*t, p)
}

func (t *timers) Pop() any {
	old := *t
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*t = old[:len(old)-1]
	return p
}

// by sets when a grantee is due, if that is sooner than it was.
func (t *timers) by(p *grantee, ns int64) {
	if ns < p.dueNs {
		p.dueNs = ns
		heap.Fix(t, p.timer)
	}
}
