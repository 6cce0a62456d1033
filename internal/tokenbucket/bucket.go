// SPDX-License-Identifier: Apache-2.0

package tokenbucket

import "math/rand/v2"

// Bucket is the token bucket of bpf/lib/pace.h in Go, with the same bits for all values. The
// data plane and the rate limiter of the card (hwoffload/rtl/token_bucket.sv) are compared
// with it, and the data path of the card's model uses it.
type Bucket struct {
	RateBps  uint64 // 0: unpaced
	BurstNs  uint64 // data that a destination may send at once after it was idle, as time at its rate
	NextTxNs uint64 // time at which the bucket is empty
}

// maxWait is PACE_MAX_WAIT_NS: a packet behind a longer backlog adds nothing to it.
const maxWait = 8_000_000_000

// Departure returns when a frame of n bytes leaves that is handed over at now, and moves the
// time at which the bucket is empty. Sums and products wrap at 2^64.
func (b *Bucket) Departure(now uint64, n uint32) (leaves uint64) {
	if b.RateBps == 0 {
		return now
	}
	wait := int64(b.NextTxNs - now)
	cost := uint64(n) * 8_000_000_000 / b.RateBps
	if wait > maxWait {
		cost = 0
	}
	if wait < -int64(b.BurstNs) {
		b.NextTxNs = now - b.BurstNs
	}
	b.NextTxNs += cost
	return now + uint64(max(wait, 0))
}

// RandomTime returns a time at which the bucket does what is seldom: it is at a limit of its
// burst or its backlog, or far from now, or the clock is about to wrap.
func (b *Bucket) RandomTime(r *rand.Rand) (now uint64) {
	switch r.IntN(8) {
	case 0:
		return b.NextTxNs + b.BurstNs + r.Uint64N(3) - 1
	case 1:
		return b.NextTxNs - maxWait + r.Uint64N(3) - 1
	case 2:
		return b.NextTxNs + r.Uint64N(3) - 1
	case 3:
		return b.NextTxNs + 1<<63 + r.Uint64N(3) - 1
	case 4:
		return r.Uint64()
	}
	return b.NextTxNs + r.Uint64N(40_000) - 20_000
}

// RandomBucket returns a bucket with a usual rate, or with a very low or high one.
func RandomBucket(r *rand.Rand) Bucket {
	b := Bucket{RateBps: r.Uint64N(400_000_000_000), BurstNs: r.Uint64N(200_000), NextTxNs: r.Uint64() >> r.IntN(64)}
	switch r.IntN(8) {
	case 0:
		b.RateBps = r.Uint64N(4)
	case 1:
		b.RateBps = r.Uint64() >> r.IntN(64)
	case 2:
		b.BurstNs = r.Uint64() >> r.IntN(64)
	case 3:
		b.BurstNs = 0
	}
	return b
}
