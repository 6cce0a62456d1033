// SPDX-License-Identifier: Apache-2.0

package engine

// bucket is the token bucket that paces the data of an engine to one destination.
//
// The bucket is kept as the time at which it is empty, as bpf/lib/pace.h keeps that of the
// kernel stack's packets: a packet may leave if that time has come, and moves it by what
// the frame takes at the rate. A destination that was idle has saved up one burst at most.
// internal/tokenbucket has vectors that both must give the same results for.
//
// One thing is different: a thread of user space may run late. What is lost by that while
// data waits is the lag, and the bucket makes up for it afterwards.
//
// Times are nanoseconds of the caller's clock, lengths bytes of L2 frames without the
// timestamp option, rates bit/s. Nothing allocates. A bucket belongs to one goroutine.

// A thread that runs late by more than the burst, on a busy machine, must not make up for
// it with a larger burst: the network would have to take it. The rate is a little higher
// afterwards instead.
const (
	lagRecovery = 40            // by 1/40, below the 3 % that a rate may be off
	maxLag      = 100 * 1000000 // ns
	nsPerByte   = 8e9           // at 1 bit/s
)

// bucket is a token bucket. The zero value has no rate and paces nothing.
type bucket struct {
	rate    uint64 // 0: unpaced
	emptyAt int64  // time at which the bucket is empty
	lag     int64  // arrears of the rate through no fault of the sender, up to maxLag
	busy    bool   // data has waited without a pause since the last packet
}

// newBucket returns a bucket with a rate.
func newBucket(rate uint64) bucket { return bucket{rate: rate} }

// Rate returns the rate; 0: unpaced.
func (b *bucket) Rate() uint64 { return b.rate }

// Next is when the next packet may leave. It is of no meaning without a rate.
func (b *bucket) Next() int64 { return b.emptyAt }

// Lag is how much the rate is behind because the caller ran late, as time at the rate.
func (b *bucket) Lag() int64 { return b.lag }

// Ready reports whether a packet may leave now.
func (b *bucket) Ready(now int64) bool { return b.rate == 0 || b.emptyAt <= now }

// Consume takes the tokens of a frame of n bytes. burst is what an idle destination may
// save up, as time at its rate. The frame need not have waited for Ready: what leaves
// ahead of its time makes the next ones wait longer.
func (b *bucket) Consume(now, burst int64, n int) {
	busy := b.busy
	b.busy = true
	if b.rate == 0 {
		return
	}
	if saved := now - burst; b.emptyAt < saved {
		if busy {
			b.lag = min(b.lag+saved-b.emptyAt, maxLag)
		}
		b.emptyAt = saved
	}
	cost := int64(uint64(n) * nsPerByte / b.rate)
	back := min(cost/lagRecovery, b.lag)
	b.lag -= back
	b.emptyAt += cost - back
}

// Idle notes that no data waits: the time until the next packet is not lag.
func (b *bucket) Idle() { b.busy = false }

// SetRate changes the rate. A wait that was due at the old one is scaled, so that a rate
// of nearly nothing does not block for hours; without a rate there is none. What could not
// be sent at a higher rate is not owed at a lower one.
func (b *bucket) SetRate(now int64, rate uint64) {
	if wait := b.emptyAt - now; wait > 0 && b.rate != 0 {
		b.emptyAt = now
		if rate != 0 {
			b.emptyAt += int64(float64(wait) * float64(b.rate) / float64(rate))
		}
	}
	if rate < b.rate {
		b.lag = 0
	}
	b.rate = rate
}
