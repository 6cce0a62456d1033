// SPDX-License-Identifier: Apache-2.0

package fourcase

// base is one set of minima, of one window. tx + rx >= rtt, unless both parts of
// a window fell at once in different packets.
type base struct{ tx, rx, rtt *int64 }

func (r *Regs) base() base { return base{&r.BaseTxNs, &r.BaseRxNs, &r.BaseRttNs} }
func (r *Regs) next() base { return base{&r.NextBaseTxNs, &r.NextBaseRxNs, &r.NextBaseRttNs} }

func (b base) set(m times) { *b.tx, *b.rx, *b.rtt = m.tx, m.rx, m.rtt }

// fold lowers the minima to a sample and re-splits them if the clocks moved. It
// returns by how much the excess of an earlier sample over these minima grows.
//
// A queue that drained lowers the round trip with the one-way time. A clock that
// drifted or was set lowers one direction only, raises the other as much, and
// leaves the round trip alone. So what a new one-way minimum has that the round
// trip has not is the clocks' doing, and the other direction's minimum goes up
// by it, but never by more than the fall. Their sum stays at the round trip's
// minimum, however the jitter falls, so the correction cannot run away.
//
// A fall of more than all that waits on the way is a clock that was set. The queue did
// not go with it: all that waits is taken for one on the way out. What of it is on the way
// back shows there, as a new minimum, as soon as that drains; a queue overlooked on the way
// out would not show before others make room.
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

// track takes a sample into the baselines. It returns false for the first one
// of its kind, which has nothing to be compared with.
//
// Two windows overlap: the minimum in force and the one being collected, which
// replaces it after BaseWindowNs. A minimum therefore stays for one to two
// windows, and a destination without traffic keeps the one it has.
func (r *Regs) track(p *Params, m times, now uint64) bool {
	if r.roundTripAlone(p, m, now) {
		return true
	}
	if r.State&StateBase == 0 || r.State&StateRTT != 0 != m.rttOnly {
		r.base().set(m)
		r.next().set(m)
		r.BaseSinceNs = now
		r.QTxNs, r.QRxNs, r.DTxNs, r.DRxNs = 0, 0, 0, 0
		r.State = StateBase | StateNext
		if m.rttOnly {
			r.State |= StateRTT
		}
		return false
	}
	if r.State&StateNext != 0 && now-r.BaseSinceNs >= p.BaseWindowNs {
		r.QTxNs -= r.NextBaseTxNs - r.BaseTxNs
		r.QRxNs -= r.NextBaseRxNs - r.BaseRxNs
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
	r.QTxNs += qTx
	r.QRxNs += qRx
	return true
}

// roundTripAlone says that m is a round trip alone and the baselines are one-way ones that
// are in use: some packets of a destination may have no room for the option. To start over
// with each change of kind would be never to decide. Baselines that no one-way sample came for in
// a whole window are not in use any more.
func (r *Regs) roundTripAlone(p *Params, m times, now uint64) bool {
	return m.rttOnly && r.State&(StateBase|StateRTT) == StateBase && now-r.BaseSinceNs < 2*p.BaseWindowNs
}

// split makes one-way times of such a round trip: what it has above its baseline counts for
// the way out.
func (r *Regs) split(p *Params, m times, now uint64) times {
	if r.roundTripAlone(p, m, now) {
		return times{tx: r.BaseTxNs + (m.rtt - r.BaseRttNs), rx: r.BaseRxNs, rtt: m.rtt, rttOnly: true}
	}
	return m
}

// roundTrip is the latest round trip, within what a guard time may sensibly be.
func (r *Regs) roundTrip() uint64 {
	if r.State&StateBase == 0 {
		return 0
	}
	return uint64(min(max(r.BaseRttNs+r.QTxNs+r.QRxNs, 0), 1e9))
}
