// SPDX-License-Identifier: Apache-2.0

package loop

import "time"

const (
	// restTick is the time between ticks that have nothing to evaluate, where the table reports the
	// first traffic.
	restTick = 50 * time.Millisecond
	// restAfter is how long nothing has happened before. Shares of the capacity and echoes have
	// ended by then.
	restAfter = uint64(100 * time.Millisecond)
	// wakeTick is the time from the report to the tick that evaluates the traffic.
	wakeTick = minTick
)

// Rest decides when ticks are restTick apart instead of idleTick. What a tick costs is mostly that a
// process wakes up. A rest ends with the first tick or event that something happened in. Times are
// monotonic ns. The zero value is one that begins at time 0.
type Rest struct {
	last uint64 // time of the last activity
	on   bool   // the next tick is restTick away
}

// Due reports whether a tick at now may begin a rest or go on with one. The table must report traffic
// from before the evaluation of that tick on.
func (r *Rest) Due(now uint64) bool { return now-r.last >= restAfter }

// Period returns the time until the next tick, after a tick at now whose period was to be period. idle:
// nothing happened in it. reported: the table reports traffic.
func (r *Rest) Period(period time.Duration, now uint64, idle, reported bool) time.Duration {
	if !idle {
		r.last = now
	}
	if r.on = reported && r.Due(now); r.on {
		return max(period, restTick)
	}
	return period
}

// Wake ends a rest because of an event at now. It returns the time until the next tick, or false if
// there was no rest: the next tick is soon then.
func (r *Rest) Wake(now uint64) (time.Duration, bool) {
	was := r.on
	r.last, r.on = now, false
	return wakeTick, was
}
