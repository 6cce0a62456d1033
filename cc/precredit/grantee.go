// SPDX-License-Identifier: Apache-2.0

package precredit

// Stats count since the receiver was made.
type Stats struct {
	Flows     [RuleHead + 1]uint64 // new flows by rule
	Given     uint64               // bytes by which limits rose
	Drained   uint64               // bytes that arrived and were served
	Void      uint64               // came back unused
	Lost      uint64               // sent, and lost
	Reclaimed uint64               // taken back from senders that fell silent
	Retries   uint64               // grants sent again
	Shortages uint64               // times that a share had to wait for another's return
}

// grantee is the account of one sender at the receiver.
type grantee struct {
	id    SenderID
	epoch uint32
	born  uint64 // order of birth, to break ties

	// The list.
	share uint32
	place int
	order uint64

	// The account, running totals: done <= done+queued <= seen, seen+void <= limit.
	limit  uint32 // highest advertised
	seen   uint32 // highest total sent that was received
	void   uint32 // highest total given up that was received
	done   uint32 // sent bytes that were served or lost
	queued uint32 // sent bytes that arrived and were not served yet

	// The loss timer: at lossTimerNs everything up to mark has arrived or never
	// will. beyond is what arrived meanwhile from beyond mark.
	mark, beyond uint32
	lossTimerNs  int64 // 0 = it does not run

	// Grants.
	first, seq, lastSeq uint16 // numbers before the first grant (or long ago), of the latest, and the latest that the sender named
	tries               uint   // transmissions of the latest grant
	known               bool   // the sender has this epoch
	accountLost         bool   // the sender has lost it again
	recall              bool   // pre-credit was asked back from the sender
	advertisedNs        int64  // time at which the limit was last advertised
	sentNs              int64  // time at which the latest grant was sent

	dueNs int64
	timer int

	inSend, inUnderfunded bool
}

// outstanding is what the sender was given and the budget has not got back, bytes.
func (p *grantee) outstanding() uint32 { return p.limit - p.done - p.void }

// answered reports whether the sender has received the latest grant.
func (p *grantee) answered() bool { return p.known && !newer(p.seq, p.lastSeq) }

// unaccounted is what the sender has sent, and has neither arrived nor been settled, bytes.
func (p *grantee) unaccounted() uint32 { return p.seen - p.done - p.queued }

// onSeq notes which grant the sender knows. It is false for an unknown one.
func (p *grantee) onSeq(seq uint16) bool {
	if newer(seq, p.seq) || newer(p.first, seq) || seq == p.first {
		return false
	}
	if newer(seq, p.lastSeq) {
		p.lastSeq = seq
	}
	return true
}

// onTotal notes the sender's running total, which cannot be beyond its limit.
func (p *grantee) onTotal(sent uint32) {
	if after(sent, p.seen) && !after(sent+p.void, p.limit) {
		p.seen = sent
	}
}
