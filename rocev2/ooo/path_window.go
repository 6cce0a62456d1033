// SPDX-License-Identifier: Apache-2.0

package ooo

// pathWindow limits the packets in flight on one path by its queueing delay: the least RTT of some
// packets, compared with the least RTT ever. Reordering delays some packets, a queue delays all,
// so the least of several RTTs tells them apart. Random loss does not shrink the window; only a
// share of losses that is typical of a full queue does.
//
// A path with one packet in flight does not fill a queue. If its RTT stays high nevertheless, its route has
// become longer, or others fill the queue. Then the RTT that it has is the base from now on.
//
// The policy of the destination still has its own limit, the rate. This window keeps ports of a
// slow link from taking the whole window of the queue pair.
type pathWindow struct {
	size    int32 // packets, in units of 1/windowUnit
	started Time  // start of the round
	least   Time  // RTT of the round
	samples int32 // samples of the round
	steady  bool  // the first queueing delay was seen
	marked  bool  // a packet of the round arrived with CE
	used    bool  // the window was full in the round

	high      int32 // rounds in a row with one packet in flight whose least RTT was too high
	highLeast Time  // the least RTT of these
}

const (
	windowUnit   = 1 << 8
	windowMax    = MaxWindow * windowUnit
	roundSamples = 8
	highRounds   = 8 // after which the base RTT rises
)

// packets returns the limit, at least 1.
func (w *pathWindow) packets() int32 { return max(1, w.size/windowUnit) }

// answered counts an answer to a packet of the path.
func (w *pathWindow) answered() { w.samples++ }

// sample takes the RTT of a packet that was sent then and is counted. base is the least RTT of the path, slack
// what a queue may add to it. A window that has not met queueing doubles each round up to an RTT
// of free, and grows by a quarter above: either the route is longer, or base has a queue in it, as
// with a port that takes its place on a link in use. It returns a new base RTT, or 0.
func (w *pathWindow) sample(now, sent, t, base, slack, free Time, congested, lossy bool) (raised Time) {
	if w.least == 0 || t < w.least {
		w.least = t
	}
	w.marked = w.marked || congested
	enough := int32(roundSamples)
	if !w.steady {
		enough = min(enough, w.packets())
	}
	if w.samples < enough || sent < w.started {
		return 0
	}
	raised = w.longer(base + slack)
	excess := w.least - base - slack
	switch {
	case excess > 0:
		w.steady = true
		w.size -= int32(min(int64(w.size)*int64(excess)/int64(w.least), int64(w.size)/2))
	case w.marked || lossy:
		w.steady = true
		w.size -= w.size / 4
	case !w.used:
	case w.steady:
		w.size += windowUnit
	case w.least > free:
		w.size += w.size / 4
	default:
		w.size *= 2
	}
	w.size = min(max(w.size, windowUnit), windowMax)
	*w = pathWindow{size: w.size, started: now, steady: w.steady, high: w.high, highLeast: w.highLeast}
	return raised
}

// longer returns the base RTT if it has to rise at the end of this round, or 0. limit is the least RTT that
// is too high.
func (w *pathWindow) longer(limit Time) Time {
	if w.least <= limit || w.packets() > 1 {
		w.high = 0
		return 0
	}
	if w.high == 0 || w.least < w.highLeast {
		w.highLeast = w.least
	}
	if w.high++; w.high < highRounds {
		return 0
	}
	w.high = 0
	return w.highLeast
}
