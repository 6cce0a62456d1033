// SPDX-License-Identifier: Apache-2.0

package precredit

// Account is a sender's side of the pre-credit that one receiver has given it. The
// zero value has none.
type Account struct {
	open   bool
	epoch  uint32
	first  uint16 // number of the grant that opened the epoch
	seq    uint16
	limit  uint32
	sent   uint32
	void   uint32
	lifeNs int64
	// raisedNs is when the limit last rose: pre-credit is void a life later.
	raisedNs int64
	// told is what the last CREDIT_RETURN said was sent and given up.
	told uint32
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

// Credit takes what the stamp of an ACK says.
func (a *Account) Credit(now int64, c Credit) {
	if !a.open || newer(a.first, c.Seq) {
		return // no account, or an ACK of the epoch before
	}
	if now-a.raisedNs >= a.lifeNs {
		a.giveUp() // a higher limit must not revive what has expired
	}
	if newer(c.Seq, a.seq) {
		a.seq = c.Seq
	}
	if after(c.Bytes, a.limit) {
		a.limit = c.Bytes
		a.raisedNs = now
	}
}

// Seq is the number of the latest grant heard, as data packets name it.
func (a *Account) Seq() uint16 { return a.seq }

// Usable is the pre-credit at hand, bytes.
func (a *Account) Usable(now int64) uint32 {
	if !a.open || now-a.raisedNs >= a.lifeNs {
		return 0
	}
	return a.limit - a.used()
}

// Spend takes n bytes for a data packet and returns what its stamp must say. ok is
// false, and nothing is taken, if the account does not cover it.
func (a *Account) Spend(now int64, n uint32) (c Credit, ok bool) {
	if n > a.Usable(now) {
		return Credit{}, false
	}
	a.sent += n
	return Credit{a.sent, a.seq}, true
}

// GiveUp returns all that is not used, as after a timeout: nobody knows what the
// path is like now. send is false if there is nothing to tell.
func (a *Account) GiveUp() (r Return, send bool) {
	a.giveUp()
	if !a.open || a.told == a.used() {
		return Return{}, false
	}
	r = a.report()
	r.Expired = true
	return r, true
}

// Report tells the receiver what was used and which limit is known: for when the
// transport finds that packets or ACKs were lost, since nobody misses the last of
// them; and for a flow that finds nothing to begin with. send is false if there is no
// account.
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

// Deadline is when to call Expire, 0 = there is nothing that could expire.
func (a *Account) Deadline() int64 {
	if !a.open || a.limit == a.used() && a.told == a.used() {
		return 0
	}
	return a.raisedNs + a.lifeNs
}

// used is what is off the limit: sent, or given up.
func (a *Account) used() uint32 { return a.sent + a.void }

// giveUp uses up the rest without sending anything, so that a limit that is on its
// way stays right.
func (a *Account) giveUp() { a.void += a.limit - a.used() }

func (a *Account) report() Return {
	a.told = a.used()
	return Return{Epoch: a.epoch, Limit: a.limit, Sent: a.sent, Void: a.void, Seq: a.seq}
}
