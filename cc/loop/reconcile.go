// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"time"

	"github.com/softroce/softroce-xdp/bpf"
)

// The model of the pacer (dest_regs.next_tx_ns) and the HTB class get the same packets, and
// still differ after some time: a timer that is later than the burst loses tokens. They are
// therefore compared from time to time, where packets wait.
const (
	reconcilePeriod  = 50 * time.Millisecond
	reconcilePerTick = 16                     // each costs a netlink request
	reconcileMaxRead = 200 * time.Microsecond // longer readings are of different times

	// Smaller differences are ignored: they are within the error of the reading.
	reconcileSlack = 500 * time.Microsecond
)

// reconciler spreads the comparisons over the destinations.
type reconciler struct {
	left int
	last map[bpf.DestKey]uint64
}

// reconcileBacklog corrects the model by the backlog of the class.
func (l *Loop) reconcileBacklog(st *step) {
	d := st.regs
	if l.cfg.Pacer != bpf.PacerHTB || !st.paced() || d.ClassId == 0 || d.StackRateBps == 0 || l.reconciler.left == 0 || l.pauses.paused(st.key) {
		return
	}
	now := l.clock()
	if now-l.reconciler.last[st.key] < uint64(reconcilePeriod) {
		return
	}
	l.reconciler.left--
	// The model is read before and after the queue. If packets arrived in between, or this
	// thread was interrupted, the readings are of different times and cannot be compared.
	model, ok := l.modelledEmptyTime(st.key)
	if !ok {
		return
	}
	bytes, ok, err := l.pacer.Backlog(d.ClassId)
	then := now
	now = l.clock()
	if again, same := l.modelledEmptyTime(st.key); err != nil || !ok || !same || again != model || now-then > uint64(reconcileMaxRead) {
		return
	}
	l.reconciler.last[st.key] = now
	packet := frameTime(l.cfg, d.StackRateBps)
	if off := apart(model, now, bytes, d.StackRateBps, packet); off != 0 {
		l.log.Debug("pacer and its model apart", "peer", bpf.AddrOf(st.key), "by", off)
		st.shiftNextTx(int64(off))
		if off.Abs() <= packet {
			st.set |= bpf.KeepEchoes
		}
	}
}

// apart returns by how much later a class with a backlog of bytes is empty than its model,
// as far as that is certain; times are monotonic ns. The class is empty when the backlog has
// left at rate bps, and when the rest of the time of the packet that left last is over. The
// kernel does not report that rest; packet is the time of a full packet. A model that is too
// early is therefore detected in full within some readings. One that is too late is detected
// beyond two packets only: one that leaves, and one that was added since. A model that is
// too early makes T1 too early, and the network seem slow.
func apart(model, now, bytes, bps uint64, packet time.Duration) time.Duration {
	off := time.Duration(now + bytes*8*uint64(time.Second)/bps - max(model, now))
	if off > reconcileSlack || -off > reconcileSlack+2*packet {
		return off
	}
	return 0
}

// frameTime returns the time of a full frame of the interface at a rate.
func frameTime(cfg *bpf.Config, bps uint64) time.Duration {
	return time.Duration(cfg.Mtu+etherLen) * 8 * time.Second / time.Duration(bps)
}

// modelledEmptyTime returns the time at which the model of a destination is empty, monotonic ns.
func (l *Loop) modelledEmptyTime(key bpf.DestKey) (uint64, bool) {
	var d bpf.DestRegs
	found, err := l.table.Lookup(key, &d)
	return d.NextTxNs, found && err == nil
}
