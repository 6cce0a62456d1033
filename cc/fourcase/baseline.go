// SPDX-License-Identifier: Apache-2.0

package fourcase

// base is one set of minima, of one window. tx + rx >= rtt, unless both parts of
// a window fell at once in different packets.
type base struct{ tx, rx, rtt *int64 }

func (r *Regs) base() base { return base{&r.BaseTxNs, &r.BaseRxNs, &r.BaseRttNs} }
func (r *Regs) next() base { return base{&r.NextBaseTxNs, &r.NextBaseRxNs, &r.NextBaseRttNs} }

func (b base) set(m times) { *b.tx, *b.rx, *b.rtt = m.tx, m.rx, m.rtt }

// fold lowers the minima to a sample and splits the RTT again if the clocks moved. It
// returns by how much the queueing delay of an earlier sample grows by that, in each
// direction.
//
// A queue that drained lowers RTT and one-way time together. A clock that drifted or was
// set lowers one direction, raises the other by as much, and does not change the RTT. The
// part of a fall that the RTT does not have is therefore due to the clocks, and the minimum
// of the other direction rises by it, at most by the fall. The sum of both stays at the
// minimum of the RTT for any jitter, so the correction is bounded.
//
// A fall of more than the queueing delay of both directions is a clock that was set. The
// queue did not change: all of it is taken for one of the forward path. The part of it that
// is on the reverse path becomes a new minimum there as soon as it drains. An overlooked
// queue of the forward path would not show before other senders make room.
func (b base) fold(m times) (qTx, qRx int64) {
	fellTx, fellRx := max(*b.tx-m.tx, 0), max(*b.rx-m.rx, 0)
	*b.tx -= fellTx
	*b.rx -= fellRx
	*b.rtt -= max(*b.rtt-m.rtt, 0)
	shift := max(*b.rtt-(*b.tx+*b.rx), 0)
	switch {
	case fellTx > 0:
		shift = min(shift, fellTx)
		if waits := m.rtt - *b.rtt; shift > waits {
			*b.tx -= waits
			*b.rx += waits
		}
		*b.rx += shift
		fellTx -= shift
	case fellRx > 0:
		shift = min(shift, fellRx)
		*b.tx += shift
		fellRx -= shift
	}
	return fellTx, fellRx
}

// track updates the base delays with a sample. It returns false for the first sample of its
// kind, as there is no earlier one to compare it with.
//
// Two windows overlap: the minimum in force and the one that is being collected, which
// replaces it after BaseWindowNs. A minimum therefore applies for one to two windows, and a
// destination without traffic keeps the one that it has.
func (r *Regs) track(p *Params, m times, now uint64) bool {
	if r.unsplitRTT(p, m, now) {
		return true
	}
	if r.State&StateBase == 0 || r.State&StateRTT != 0 != m.rttOnly {
		r.base().set(m)
		r.next().set(m)
		r.BaseSinceNs = now
		r.QueueingTxNs, r.QueueingRxNs, r.TrendTxNs, r.TrendRxNs = 0, 0, 0, 0
		r.State = StateBase | StateNext
		if m.rttOnly {
			r.State |= StateRTT
		}
		return false
	}
	if r.State&StateNext != 0 && now-r.BaseSinceNs >= p.BaseWindowNs {
		r.QueueingTxNs -= r.NextBaseTxNs - r.BaseTxNs
		r.QueueingRxNs -= r.NextBaseRxNs - r.BaseRxNs
		r.BaseTxNs, r.BaseRxNs, r.BaseRttNs = r.NextBaseTxNs, r.NextBaseRxNs, r.NextBaseRttNs
		r.State &^= StateNext
	}
	if r.State&StateNext == 0 {
		r.next().set(m)
		r.BaseSinceNs = now
		r.State |= StateNext
	} else {
		r.next().fold(m)
	}
	qTx, qRx := r.base().fold(m)
	r.QueueingTxNs += qTx
	r.QueueingRxNs += qRx
	return true
}

// unsplitRTT reports whether m is an RTT without one-way times while the base delays are
// one-way times in use: some packets of a destination may have no room for the option. If
// each change of kind started over, no decision would ever be made. Base delays for which no
// one-way sample arrived in a whole window are no longer in use.
func (r *Regs) unsplitRTT(p *Params, m times, now uint64) bool {
	return m.rttOnly && r.State&(StateBase|StateRTT) == StateBase && now-r.BaseSinceNs < 2*p.BaseWindowNs
}

// split turns such an RTT into one-way times: all of its queueing delay counts for the
// forward path.
func (r *Regs) split(p *Params, m times, now uint64) times {
	if r.unsplitRTT(p, m, now) {
		return times{tx: r.BaseTxNs + (m.rtt - r.BaseRttNs), rx: r.BaseRxNs, rtt: m.rtt, rttOnly: true}
	}
	return m
}

// latestRTT is the RTT of the latest sample in nanoseconds, at most a second, since it is
// used as a guard time.
func (r *Regs) latestRTT() uint64 {
	if r.State&StateBase == 0 {
		return 0
	}
	return uint64(min(max(r.BaseRttNs+r.QueueingTxNs+r.QueueingRxNs, 0), 1e9))
}
