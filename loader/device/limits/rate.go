// SPDX-License-Identifier: Apache-2.0

package limits

import "time"

// Saved is for how long calls that were not made are kept: a process that has made none for so long may
// make them all at once.
const Saved = 30 * time.Second

// Bucket limits how often something is done: perSecond times on average, and so many times at once as
// may be done in the time saved. It is a token bucket, kept as the time at which it is full (GCRA, ITU-T
// I.371). Its zero value is full.
type Bucket struct{ full time.Duration }

// Spend counts n times now, and returns how long the caller has to wait before it does the next. now is
// the time since any fixed point. perSecond 0 counts as 1.
func (b *Bucket) Spend(now time.Duration, n, perSecond uint64, saved time.Duration) (wait time.Duration) {
	const most = 1 << 30 // so that no product exceeds 64 bits, and no sum
	cost := time.Duration(min(n, most) * uint64(time.Second) / max(perSecond, 1))
	b.full = min(max(b.full, now)+cost, now+most*time.Second)
	return max(0, b.full-saved-now)
}

// callsOf returns the bucket of a user. Those of users that have ended are kept until they are full, so
// that another process of the user does not begin with a full one.
func (a *Accounts) callsOf(uid uint32, now time.Duration) *Bucket {
	if b := a.calls[uid]; b != nil {
		return b
	}
	if len(a.calls) >= a.sweep {
		for id, b := range a.calls {
			if b.full <= now {
				delete(a.calls, id)
			}
		}
		a.sweep = max(2*len(a.calls), minSweep)
	}
	b := &Bucket{}
	a.calls[uid] = b
	return b
}

// minSweep is how many buckets there are before the first time that full ones are removed.
const minSweep = 64

// Spend counts n calls that the process has made. It returns how long the process has to wait before
// the next, by its own limit and by that of its user. now is the time since any fixed point. Calls are
// never refused.
func (p *Process) Spend(now time.Duration, n uint64) (wait time.Duration) {
	a := p.accounts
	a.mu.Lock()
	defer a.mu.Unlock()
	wait = p.calls.Spend(now, n, a.limits.Process[Calls], Saved)
	return max(wait, a.callsOf(p.uid, now).Spend(now, n, a.limits.User[Calls], Saved))
}
