// SPDX-License-Identifier: Apache-2.0

package precredit

import "container/heap"

// SenderID is the caller's number of a sending host: a node number, an index.
type SenderID uint32

// Rule is which rule of S5.2 a new flow's pre-credit came by.
type Rule uint8

// The rules.
const (
	RuleNone  Rule = iota // the budget has nothing to give
	RuleShare             // the sender is in the list: its flows have its share
	RuleFree              // free pre-credit
	RuleHead              // the head of the list gave up its own
)

var ruleNames = [...]string{"none", "share", "free", "head"}

func (r Rule) String() string {
	if int(r) < len(ruleNames) {
		return ruleNames[r]
	}
	return "unknown"
}

// Outcome is what the list did for a new flow.
type Outcome struct {
	Rule  Rule
	Bytes uint32   // the sender's share now
	From  SenderID // RuleHead: who gave it up
}

// Receiver is the receiver's half: the list of S5.2, the accounts of all senders,
// and the grants to send. Its methods cost O(log n) of the senders that it knows.
// Its caller sends what Next gives, after each call of another method, and calls
// Expire by Deadline.
type Receiver struct {
	p     Params
	peers map[SenderID]*grantee
	list  list
	free  uint32 // no sender's share

	// out is the sum of all grantees' outstanding(): given, and not yet back.
	out uint32

	timers      timers
	send        queue // grants to send
	underfunded queue // grantees whose limit the budget could not raise to their share
	epoch       uint32
	order       uint64
	stats       Stats
}

// NewReceiver makes a receiver. p must have passed Validate. epoch numbers the
// accounts from there on; it must be beyond those of the receiver's last life, as a
// count of seconds is.
func NewReceiver(p Params, epoch uint32) *Receiver {
	return &Receiver{p: p, peers: map[SenderID]*grantee{}, free: p.BufferBytes, epoch: epoch}
}

// Stats are the counters.
func (r *Receiver) Stats() Stats { return r.stats }

// Outstanding is the part of the budget that is given away: unused at senders, in
// flight, or waiting to be served. It never exceeds BufferBytes.
func (r *Receiver) Outstanding() uint32 { return r.out }

// Share is what the list gives a sender; 0 if it is not in the list.
func (r *Receiver) Share(id SenderID) uint32 {
	if p := r.peers[id]; p != nil {
		return p.share
	}
	return 0
}

// NewFlow applies S5.2 to a new flow of a sender: a queue pair that connects, or the
// first packet of a flow that came without pre-credit.
//
// The share changes hands at once. The bytes do when they are back: until the head
// has reported how much it has not used, the budget may have no room for the new share.
func (r *Receiver) NewFlow(now int64, id SenderID) Outcome {
	o := r.place(now, id)
	r.stats.Flows[o.Rule]++
	if o.Rule != RuleNone {
		r.offer(now, r.peers[id])
	}
	return o
}

// place finds the sender its place in the list.
func (r *Receiver) place(now int64, id SenderID) Outcome {
	p := r.peers[id]
	if p != nil && p.place != nowhere {
		return Outcome{Rule: RuleShare, Bytes: p.share}
	}
	if share := min(r.free, r.p.ShareBytes); share >= r.p.MinBytes {
		r.free -= share
		r.enter(now, id, share)
		return Outcome{Rule: RuleFree, Bytes: share}
	}
	if len(r.list) == 0 {
		return Outcome{}
	}
	head := r.list[0]
	share := r.list.take(head)
	head.recall = true
	r.grant(head)
	r.enter(now, id, share)
	return Outcome{Rule: RuleHead, Bytes: share, From: head.id}
}

// enter puts the sender into the list.
func (r *Receiver) enter(now int64, id SenderID, share uint32) {
	p := r.peers[id]
	if p == nil {
		p = r.open(now, id)
	}
	p.recall = false
	r.order++
	r.list.give(p, share, r.order)
}

// open makes the sender's account.
func (r *Receiver) open(now int64, id SenderID) *grantee {
	r.order++
	p := &grantee{id: id, epoch: r.epoch, born: r.order, place: nowhere, dueNs: r.silent(now), advertisedNs: now}
	// Numbers far from those of the epochs before, so that what is still in flight
	// from there is distinguished.
	p.first = uint16(r.epoch * 0x9E37)
	p.seq, p.lastSeq = p.first, p.first
	r.epoch++
	r.peers[id] = p
	heap.Push(&r.timers, p)
	return p
}

// Leave takes a sender off the list, as when its last queue pair has gone: its share
// is free for the next flow of another.
func (r *Receiver) Leave(id SenderID) {
	p := r.peers[id]
	if p == nil || p.place == nowhere {
		return
	}
	r.drop(p)
	if p.outstanding() > 0 {
		p.recall = true
		r.grant(p)
	}
}

// drop takes a sender's share away.
func (r *Receiver) drop(p *grantee) { r.free += r.list.take(p) }

// offer advertises the highest limit that share and budget allow to the sender. It
// goes as a grant, since there may be no ACK to carry it.
func (r *Receiver) offer(now int64, p *grantee) {
	before := p.limit
	r.raise(p)
	if p.limit != before || !p.known {
		p.recall = false
		r.grant(p)
	}
}

// raise lifts the limit as far as share and budget allow.
func (r *Receiver) raise(p *grantee) {
	if p.place == nowhere || p.outstanding() >= p.share {
		return
	}
	want := p.share - p.outstanding()
	n := min(want, r.p.BufferBytes-r.out)
	p.limit += n
	r.out += n
	r.stats.Given += uint64(n)
	if n < want && !p.inUnderfunded {
		p.inUnderfunded = true
		r.underfunded.push(p)
		r.stats.Shortages++
	}
}

// settle takes n bytes that p has sent off what is outstanding.
func (r *Receiver) settle(p *grantee, n uint32) {
	p.done += n
	r.out -= n
}

// serveWaiting offers room to the senders that have waited for it, the longest first, and at
// least MinBytes at a time, since each offer costs a grant.
func (r *Receiver) serveWaiting(now int64) {
	for r.p.BufferBytes-r.out >= r.p.MinBytes {
		p := r.underfunded.pop()
		if p == nil {
			return
		}
		p.inUnderfunded = false
		if p.place != nowhere {
			r.offer(now, p)
		}
	}
}

// Arrive takes a data packet that was sent on pre-credit into the buffer: n bytes of
// payload, and the credit of its stamp. Call it once for a packet, not for copies of it.
func (r *Receiver) Arrive(now int64, id SenderID, n uint32, c Credit) {
	p := r.peers[id]
	if p == nil || !p.onSeq(c.Seq) {
		return
	}
	p.onTotal(c.Bytes)
	behind := p.lossTimerNs != 0 && !after(p.mark+n, c.Bytes)
	n = min(n, p.unaccounted()) // the rest was settled as lost already
	p.queued += n
	if behind {
		p.beyond += n
	}
	r.startLossTimer(now, p)
}

// DstScheduleCredit serves n bytes of a sender's packet, that is, they leave the
// buffer, and returns what the ACK for it must say: dst_schedule_credit of S5.5. n is
// 0 for a packet that was not sent on pre-credit. ok is false if the ACK has nothing
// to say, as the sender is not in the list.
func (r *Receiver) DstScheduleCredit(now int64, id SenderID, n uint32) (c Credit, ok bool) {
	p := r.peers[id]
	if p == nil {
		return Credit{}, false
	}
	if n = min(n, p.queued); n > 0 {
		p.queued -= n
		r.settle(p, n)
		r.stats.Drained += uint64(n)
	}
	r.raise(p)
	r.serveWaiting(now)
	if p.place == nowhere || !p.known || p.accountLost {
		return Credit{}, false
	}
	p.advertisedNs = now
	return Credit{p.limit, p.seq}, true
}

// Return takes a CREDIT_RETURN.
func (r *Receiver) Return(now int64, id SenderID, m Return) {
	p := r.peers[id]
	if p == nil || m.Epoch != p.epoch {
		return
	}
	if m.Unknown {
		r.restarted(now, p)
		return
	}
	if p.accountLost || !p.onSeq(m.Seq) {
		return
	}
	p.known = true
	p.onTotal(m.Sent)
	r.voided(p, m.Void)
	r.startLossTimer(now, p)
	switch {
	case p.place == nowhere:
	case m.Expired && m.Sent+m.Void == p.limit: // and no more is in flight
		r.drop(p)
	case p.outstanding() < p.share:
		r.offer(now, p)
	case after(p.limit, m.Limit): // the ACK that said so may be lost
		r.grant(p)
	}
	r.serveWaiting(now)
}

// voided notes the sender's running total of what it gave up.
func (r *Receiver) voided(p *grantee, void uint32) {
	if !after(void, p.void) || after(p.seen+void, p.limit) {
		return
	}
	n := void - p.void
	p.void = void
	r.out -= n
	r.stats.Void += uint64(n)
}

// startLossTimer starts the timer of losses if bytes are unaccounted.
func (r *Receiver) startLossTimer(now int64, p *grantee) {
	if p.lossTimerNs != 0 || p.unaccounted() == 0 {
		return
	}
	p.mark, p.beyond = p.seen, 0
	p.lossTimerNs = now + r.p.DelayNs
	r.timers.by(p, p.lossTimerNs)
}

// lost takes off the budget what has not arrived of the bytes up to mark.
func (r *Receiver) lost(now int64, p *grantee) {
	p.lossTimerNs = 0
	if here := p.done + p.queued - p.beyond; after(p.mark, here) {
		n := min(p.mark-here, p.unaccounted())
		r.settle(p, n)
		r.stats.Lost += uint64(n)
		// If that was all it had, there will be no packet and no ACK.
		if p.place != nowhere && !p.accountLost {
			r.offer(now, p)
		}
	}
	r.startLossTimer(now, p)
}

// restarted: the sender has lost its account. What it has sent is lost or here when
// its packets have had their time.
func (r *Receiver) restarted(now int64, p *grantee) {
	p.accountLost = true
	p.advertisedNs = min(p.advertisedNs, now-r.p.LifeNs-r.p.DelayNs)
	r.timers.by(p, r.silent(p.advertisedNs))
}

// silent is when nothing that was advertised at ns can be used or in flight any more: the
// sender received it a delay later, kept it for a life, and its last packet took a delay.
func (r *Receiver) silent(ns int64) int64 { return ns + r.p.LifeNs + 2*r.p.DelayNs }
