// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Bucket limits how often something is done: perSecond times on average, and so many times at once as
// may be done in the time saved. It is a token bucket, kept as the time at which it is full (GCRA, ITU-T
// I.371). Its zero value is full. Any goroutine may call its methods.
type Bucket struct{ full atomic.Int64 } // ns

// longest is the longest time until a bucket is full. No sum of it exceeds 64 bits.
const longest = 1 << 30 * time.Second

// Spend counts n times now, and returns how long the caller has to wait before it does the next. now is
// the time since any fixed point. perSecond 0 counts as 1.
func (b *Bucket) Spend(now time.Duration, n, perSecond uint64, saved time.Duration) (wait time.Duration) {
	cost := longest
	perSecond = max(perSecond, 1)
	if high, low := bits.Mul64(n, uint64(time.Second)); high < perSecond {
		ns, _ := bits.Div64(high, low, perSecond)
		cost = time.Duration(min(ns, uint64(longest)))
	}
	_, missing := b.take(now, cost, longest)
	return max(0, missing-saved)
}

// take takes what the bucket is filled with in the time cost, or less: at most so much that the time most fills it again.
// It returns both times as they are then: that of what it took, and that until the bucket is full.
func (b *Bucket) take(now, cost, most time.Duration) (taken, missing time.Duration) {
	for {
		old := b.full.Load()
		before := max(time.Duration(old), now)
		full := max(before, min(before+cost, now+most))
		if b.full.CompareAndSwap(old, int64(full)) {
			return full - before, full - now
		}
	}
}

// isFull reports whether nothing is missing.
func (b *Bucket) isFull(now time.Duration) bool { return time.Duration(b.full.Load()) <= now }
