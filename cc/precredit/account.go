// SPDX-License-Identifier: Apache-2.0

package precredit

// Account is a sender's side of the pre-credit that one receiver has given it. The
// zero value has none.
type Account struct {
	open   bool
	epoch  uint32
	first  uint16 // number of the grant that opened the epoch, or of one long ago
	seq    uint16
	limit  uint32
	sent   uint32
	void   uint32
	lifeNs int64
	// raisedNs is when the limit last rose: pre-credit is void a life later.
	raisedNs int64
	// reported is what the last CREDIT_RETURN counts as sent or given up.
	reported uint32
}

// Grant takes a CREDIT_GRANT and gives the CREDIT_RETURN that answers it; send is
// false for one that is out of date.
func (a *Account) Grant(now int64, g Grant) (r Return, send bool) {
	switch {
	case a.open && after(a.epoch, g.Epoch):
		return Return{}, false
	case !a.open && !g.Open, a.open && a.epoch != g.Epoch && !g.Open:
		return Return{Epoch: g.Epoch, Seq: g.Seq, Unknown: true}, true
	case !a.open || a.epoch != g.Epoch:
		*a = Account{open: true, epoch: g.Epoch, first: g.Seq, seq: g.Seq, lifeNs: g.LifeNs, raisedNs: now}
	}
	fresh := !newer(a.seq, g.Seq)
	a.Credit(now, Credit{g.Limit, g.Seq})
	if g.Recall && fresh {
		a.giveUp()
	}
	return a.report(), true
}

// Credit takes the credit of an ACK's stamp.
func (a *Account) Credit(now int64, c Credit) {
	if !a.open || newer(a.first, c.Seq) {
		return // no account, or an ACK of the epoch before
	}
	if now-a.raisedNs >= a.lifeNs {
		a.giveUp() // a higher limit must not revive what has expired
	}
	if newer(c.Seq, a.seq) {
		a.seq = c.Seq
		a.first = follow(a.first, a.seq)
	}
	if after(c.Bytes, a.limit) {
		a.limit = c.Bytes
		a.raisedNs = now
	}
}

// Seq is the number of the latest grant received, as data packets name it.
func (a *Account) Seq() uint16 { return a.seq }

// Usable is the pre-credit at hand, bytes.
func (a *Account) Usable(now int64) uint32 {
	if !a.open || now-a.raisedNs >= a.lifeNs {
		return 0
	}
	return a.limit - a.used()
}

// Spend takes n bytes for a data packet and returns the credit for its stamp. ok is
// false, and nothing is taken, if the account does not cover it.
func (a *Account) Spend(now int64, n uint32) (c Credit, ok bool) {
	if n > a.Usable(now) {
		return Credit{}, false
	}
	a.sent += n
	return Credit{a.sent, a.seq}, true
}

// GiveUp returns all that is not used, as after a timeout: the state of the path is
// unknown. send is false if there is nothing to report.
func (a *Account) GiveUp() (r Return, send bool) {
	a.giveUp()
	if !a.open || a.reported == a.used() {
		return Return{}, false
	}
	r = a.report()
	r.Expired = true
	return r, true
}

// Report is a CREDIT_RETURN with what was used and the limit that is known. The caller sends
// it when the transport finds that packets or ACKs were lost, since the receiver does
// not notice the loss of the last of them, and when a flow begins without pre-credit. send is
// false if there is no account.
func (a *Account) Report() (r Return, send bool) {
	if !a.open {
		return Return{}, false
	}
	return a.report(), true
}

// Expire gives up what has lain unused for its life.
func (a *Account) Expire(now int64) (r Return, send bool) {
	if !a.open || now-a.raisedNs < a.lifeNs {
		return Return{}, false
	}
	return a.GiveUp()
}

// Deadline is when to call Expire, 0 = nothing can expire.
func (a *Account) Deadline() int64 {
	if !a.open || a.limit == a.used() && a.reported == a.used() {
		return 0
	}
	return a.raisedNs + a.lifeNs
}

// used is how much of the limit was sent or given up.
func (a *Account) used() uint32 { return a.sent + a.void }

// giveUp uses up the rest without sending anything, so that a limit in flight stays right.
func (a *Account) giveUp() { a.void += a.limit - a.used() }

func (a *Account) report() Return {
	a.reported = a.used()
	return Return{Epoch: a.epoch, Limit: a.limit, Sent: a.sent, Void: a.void, Seq: a.seq}
}
