// SPDX-License-Identifier: Apache-2.0

package precredit

import "container/heap"

// queue is a first-in first-out queue of grantees, a ring.
type queue struct {
	ring       []*grantee
	head, size int
}

func (q *queue) push(p *grantee) {
	if q.size == len(q.ring) {
		ring := make([]*grantee, max(8, 2*q.size))
		for i := range q.size {
			ring[i] = q.ring[(q.head+i)%len(q.ring)]
		}
		q.ring, q.head = ring, 0
	}
	q.ring[(q.head+q.size)%len(q.ring)] = p
	q.size++
}

// pop returns nil if the queue is empty.
func (q *queue) pop() *grantee {
	if q.size == 0 {
		return nil
	}
	p := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) % len(q.ring)
	q.size--
	return p
}

// grant lets a grant with a new number go out.
func (r *Receiver) grant(p *grantee) {
	p.seq++
	p.first = follow(p.first, p.seq)
	p.tries = 0
	r.again(p)
}

func (r *Receiver) again(p *grantee) {
	if !p.inSend {
		p.inSend = true
		r.send.push(p)
	}
}

// Next is the next CREDIT_GRANT to send, and to whom.
func (r *Receiver) Next(now int64) (to SenderID, g Grant, ok bool) {
	for {
		p := r.send.pop()
		if p == nil {
			return 0, Grant{}, false
		}
		p.inSend = false
		if r.peers[p.id] != p || p.accountLost {
			continue
		}
		p.sentNs, p.advertisedNs = now, now
		p.tries++
		r.timers.by(p, r.retry(p))
		return p.id, Grant{
			Epoch: p.epoch, Limit: p.limit, Seq: p.seq,
			Open: !p.known, Recall: p.recall && p.place == nowhere,
			LifeNs: r.p.LifeNs,
		}, true
	}
}

// Deadline is when to call Expire, 0 = there is nothing to wait for.
func (r *Receiver) Deadline() int64 {
	if len(r.timers) == 0 {
		return 0
	}
	return r.timers[0].dueNs
}

// Expire does what is due: grants that stayed unanswered go out again, lost bytes
// and those of senders that fell silent come back to the budget.
func (r *Receiver) Expire(now int64) {
	for len(r.timers) > 0 && r.timers[0].dueNs <= now {
		p := r.timers[0]
		if p.lossTimerNs != 0 && p.lossTimerNs <= now {
			r.lost(now, p)
		}
		if r.silent(p.advertisedNs) <= now && r.forget(now, p) {
			continue
		}
		if r.waits(p) && r.retry(p) <= now {
			r.stats.Retries++
			r.again(p)
		}
		p.dueNs = r.due(now, p)
		heap.Fix(&r.timers, p.timer)
	}
	r.serveWaiting(now)
}

// maxTries is how often a grant goes out: a sender that answers none of them is gone,
// and what it was given comes back when it can have nothing of it any more.
const maxTries = 8

// waits reports whether a grant to the grantee is unanswered.
func (r *Receiver) waits(p *grantee) bool {
	return !p.answered() && !p.inSend && !p.accountLost && p.tries < maxTries
}

// retry is when the latest grant goes out again: later each time.
func (r *Receiver) retry(p *grantee) int64 { return p.sentNs + r.p.RetryNs<<(max(p.tries, 1)-1) }

// due is when the grantee next needs attention. It may be too early, as when the limit
// has been advertised again since: Expire asks again then.
func (r *Receiver) due(now int64, p *grantee) int64 {
	ns := r.silent(p.advertisedNs)
	if ns <= now { // only what waits in the buffer is left
		ns = now + r.p.DelayNs
	}
	if p.lossTimerNs != 0 {
		ns = min(ns, p.lossTimerNs)
	}
	if r.waits(p) {
		ns = min(ns, r.retry(p))
	}
	return max(ns, now+1)
}

// forget ends an account whose sender can have nothing of it any more; while packets
// of it still wait in the buffer, all but them. If the sender is in the list in spite
// of that, as after its restart, it gets a new account.
func (r *Receiver) forget(now int64, p *grantee) bool {
	rest := p.outstanding() - p.queued
	p.seen = p.limit - p.void
	r.settle(p, rest)
	r.stats.Reclaimed += uint64(rest)
	if p.queued > 0 {
		if !p.accountLost && p.place != nowhere {
			r.drop(p)
		}
		p.accountLost = true // nothing may be advertised any more
		return false
	}
	heap.Remove(&r.timers, p.timer)
	delete(r.peers, p.id)
	switch {
	case p.place == nowhere:
	case p.accountLost:
		r.enter(now, p.id, r.list.take(p))
		r.offer(now, r.peers[p.id])
	default:
		r.drop(p)
	}
	return true
}
