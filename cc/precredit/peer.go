// SPDX-License-Identifier: Apache-2.0

package precredit

// Stats count since the receiver was made.
type Stats struct {
	Flows     [RuleHead + 1]uint64 // new flows by rule
	Given     uint64               // bytes by which limits rose
	Drained   uint64               // of them arrived and served
	Void      uint64               // came back unused
	Lost      uint64               // sent, and lost
	Reclaimed uint64               // taken back from senders that fell silent
	Retries   uint64               // grants sent again
	Shortages uint64               // times that a share had to wait for another's return
}

// Waste is the part of the bytes given that no packet used, in 1/1024.
func (s *Stats) Waste() uint64 {
	if s.Given == 0 {
		return 0
	}
	return (s.Void + s.Reclaimed) << 10 / s.Given
}

// peer is one sender's account, the receiver's side of it.
type peer struct {
	id    Sender
	epoch uint32
	born  uint64 // order of birth, to break ties

	// The list.
	share uint32
	place int
	order uint64

	// The account, running totals: done <= done+queued <= seen, seen+void <= limit.
	limit  uint32 // highest told
	seen   uint32 // highest total sent that was heard of
	void   uint32 // highest total given up that was heard of
	done   uint32 // of what was sent: served or lost
	queued uint32 // of what was sent: arrived and not served yet

	// Looking for losses: at settleNs everything up to mark has arrived or never
	// will. beyond is what arrived meanwhile from beyond mark.
	mark, beyond uint32
	settleNs     int64 // 0 = not looking

	// Grants.
	first, seq, heard uint16 // numbers before the first grant (or long ago), of the latest, and the latest that the sender named
	tries             uint   // how often the latest went out
	known             bool   // the sender has this epoch
	gone              bool   // the sender has lost it again
	recall            bool   // it has been asked to give up
	toldNs            int64  // when the limit was last told
	sentNs            int64  // when the latest grant was sent

	dueNs int64
	timer int

	inSend, inShort bool
}

// out is what the peer has been given and the budget has not got back.
func (p *peer) out() uint32 { return p.limit - p.done - p.void }

// answered tells whether the sender has heard the latest grant.
func (p *peer) answered() bool { return p.known && !newer(p.seq, p.heard) }

// missing is what the sender has sent, and has neither arrived nor been settled.
func (p *peer) missing() uint32 { return p.seen - p.done - p.queued }

// hear notes which grant the sender knows. It is false if that is none of ours.
func (p *peer) hear(seq uint16) bool {
	if newer(seq, p.seq) || newer(p.first, seq) || seq == p.first {
		return false
	}
	if newer(seq, p.heard) {
		p.heard = seq
	}
	return true
}

// see notes the sender's running total, which cannot be beyond its limit.
func (p *peer) see(sent uint32) {
	if after(sent, p.seen) && !after(sent+p.void, p.limit) {
		p.seen = sent
	}
}
