// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
)

// The model of the pacer (dest_regs.next_tx_ns) and an HTB class are fed alike
// and go apart all the same: a timer that is later than the burst loses tokens
// for good. So we compare them now and then, where packets wait.
const (
	resyncPeriod  = 50 * time.Millisecond
	resyncPerTick = 16 // each costs a netlink request
	resyncHaste   = 200 * time.Microsecond

	// Smaller differences are left alone: they come from the reading itself.
	resyncSlack = 500 * time.Microsecond
)

// resyncs spreads the comparisons over the destinations.
type resyncs struct {
	left int
	last map[bpf.DestKey]uint64
}

// resync puts the model where the pacer's queue is, in the slot that is applied
// after this.
func (a *Agent) resync(slot *bpf.ExchangeSlot) {
	d := &slot.Regs
	if a.pacer.Kind() != bpf.PacerHTB || d.WinPaced == 0 || d.ClassId == 0 || d.StackRateBps == 0 || a.resyncs.left == 0 || a.drains.paused(slot.Key) {
		return
	}
	now := loader.Monotonic()
	if now-a.resyncs.last[slot.Key] < uint64(resyncPeriod) {
		return
	}
	a.resyncs.left--
	// The model, the queue, the model again: if packets came in between, or this
	// thread was interrupted, the two are of different times and say nothing.
	model, ok := a.modelOf(slot.Key)
	if !ok {
		return
	}
	bytes, ok, err := a.pacer.Backlog(d.ClassId)
	then := now
	now = loader.Monotonic()
	if again, same := a.modelOf(slot.Key); err != nil || !ok || !same || again != model || now-then > uint64(resyncHaste) {
		return
	}
	a.resyncs.last[slot.Key] = now
	packet := frameTime(a.cfg.Config, d.StackRateBps)
	if off := apart(model, now, bytes, d.StackRateBps, packet); off != 0 {
		a.log.Debug("pacer and its model apart", "peer", bpf.AddrOf(slot.Key), "by", off)
		moveEmpty(slot, int64(off))
		if off.Abs() <= packet {
			slot.Op |= bpf.KeepEchoes
		}
	}
}

// apart returns how much later a class with a backlog of so many bytes is empty than its
// model says, as far as that is certain; times are monotonic ns. The class is empty when
// the backlog has left at its rate, and what is left of the last packet's time is over,
// which the kernel does not tell; packet is what a full one takes. So a model that is too
// early shows in full within some readings, and one that is too late only beyond two
// packets: one that leaves and one that came since. A model that is too early makes departures look early, and so the network slow.
func apart(model, now, bytes, bps uint64, packet time.Duration) time.Duration {
	off := time.Duration(now + bytes*8*uint64(time.Second)/bps - max(model, now))
	if off > resyncSlack || -off > resyncSlack+2*packet {
		return off
	}
	return 0
}

// frameTime is what a full frame of the interface takes at a rate.
func frameTime(cfg *bpf.Config, bps uint64) time.Duration {
	return time.Duration(cfg.Mtu+etherLen) * 8 * time.Second / time.Duration(bps)
}

// moveEmpty has the model moved with the slot that is applied after this. What the slot
// says of the model stays as it was read, and more than one may move it.
func moveEmpty(slot *bpf.ExchangeSlot, by int64) {
	if slot.Op&bpf.MoveEmpty == 0 {
		slot.MoveNs = 0
	}
	slot.MoveNs += by
	slot.Op = slot.Op&^bpf.KeepEchoes | bpf.MoveEmpty
}

// emptyAt is when the model says that the class is empty, once the slot is applied.
func emptyAt(slot *bpf.ExchangeSlot) uint64 {
	if slot.Op&bpf.MoveEmpty == 0 {
		return slot.Regs.NextTxNs
	}
	return slot.Regs.NextTxNs + uint64(slot.MoveNs)
}

// modelOf is when the model says that a destination's class is empty.
func (a *Agent) modelOf(key bpf.DestKey) (uint64, bool) {
	row, found, err := a.att.Lookup(bpf.AddrOf(key))
	return row.Regs.NextTxNs, found && err == nil
}
