// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"time"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/bpf"
)

// idleLimit is the time after which a destination without any packet loses its entry, in a table that is
// at most half full. Nodes
// of the node file keep their entries.
const idleLimit = 10 * time.Minute

// A table that is more than half full keeps idle entries for less time, so that new destinations find
// room: anybody can have this host send to many addresses. The time falls from idleLimit to leastIdle in
// a full table, and the sweep is faster.
const (
	leastIdle  = 10 * time.Second
	fastSweeps = 16 // batches at a time
)

// idleLimitOf returns the time without a packet after which an entry is removed. size is the number of
// entries that the table has room for.
func idleLimitOf(dests, size int) time.Duration {
	if dests <= size/2 {
		return idleLimit
	}
	return max(idleLimit*time.Duration(size-dests)/time.Duration(size-size/2), leastIdle)
}

// sweepBatch entries are checked every sweepPeriod: the cost of a tick does not grow with the
// table, only the time that a whole round takes.
const (
	sweepBatch  = 512
	sweepPeriod = time.Second
)

// sweeper walks the table again and again. It removes idle entries, and handles those whose
// event was lost because the ring was full.
type sweeper struct {
	cursor ebpf.MapBatchCursor
	last   uint64 // time of the last call that checked entries
	after  uint64 // no entry is idle before this
	keys   []bpf.DestKey
	regs   []bpf.DestRegs
}

func (s *sweeper) some(a *Agent, now uint64) {
	if now-s.last < uint64(sweepPeriod) {
		return
	}
	s.last = now
	if s.keys == nil {
		s.keys, s.regs = make([]bpf.DestKey, sweepBatch), make([]bpf.DestRegs, sweepBatch)
	}
	size := int(a.att.Maps.DestTable.MaxEntries()) - 1
	if s.batch(a, now, idleLimitOf(a.dests, size)); a.dests <= size/2 {
		return
	}
	for range fastSweeps - 1 {
		s.batch(a, now, idleLimitOf(a.dests, size))
	}
}

// batch checks some entries.
func (s *sweeper) batch(a *Agent, now uint64, limit time.Duration) {
	n, err := a.att.Maps.DestTable.BatchLookup(&s.cursor, s.keys, s.regs, nil)
	for i := range n {
		switch {
		case s.regs[i].Node == 0: // its event was lost, or was not read yet
			a.handleNewDest(s.keys[i])
		case now >= s.after && idle(&s.regs[i], now, a.clockOffset, limit):
			a.forget(s.keys[i], s.regs[i].ClassId)
		}
	}
	if err != nil {
		if !errors.Is(err, ebpf.ErrKeyNotExist) {
			a.log.Warn("sweep the table", "err", err)
		}
		s.cursor = ebpf.MapBatchCursor{} // the end: start over
	}
}

// lastUsed returns the time of the destination's last packet, monotonic ns. The times in the
// table are on the clock of the stamps, which is ahead of the monotonic clock by offset.
func lastUsed(d *bpf.DestRegs, offset uint64) uint64 {
	last := max(d.LastTxNs, d.LastRxNs)
	return last - min(offset, last)
}

// idle reports whether a destination was not used for a time. A time of its last packet that is as far in
// the future is from before the clock was set back.
func idle(d *bpf.DestRegs, now, offset uint64, limit time.Duration) bool {
	last := lastUsed(d, offset)
	return max(now, last)-min(now, last) > uint64(limit)
}

// clockSet is the change of the offset by which a clock that was set differs from two clocks
// that were not read at the same instant.
const clockSet = uint64(time.Second)

// followClock takes the present offset of the clock of the stamps. TAI may be set while the
// agent runs. Times in the table from before cannot be compared then, so no entry is removed
// for idleLimit: by then the destinations in use have new ones.
func (a *Agent) followClock(offset, now uint64) {
	if before := a.clockOffset; max(offset, before)-min(offset, before) > clockSet {
		a.sweep.after = now + uint64(idleLimit)
	}
	a.clockOffset, a.loop.ClockOffset = offset, offset
}

// forget removes an idle destination and its class.
func (a *Agent) forget(key bpf.DestKey, class uint32) {
	peer := bpf.AddrOf(key)
	if a.nodes.Listed(peer) {
		return
	}
	if err := a.att.Maps.DestTable.Delete(key); err != nil {
		return // gone already
	}
	if err := a.pacer.Release(class); err != nil {
		a.log.Warn("pacer", "peer", peer, "err", err)
	}
	a.peers.Remove(key)
	a.forgetSources(key)
	a.loop.Forget(key)
	delete(a.echoes.all, key)
	a.limits.forget(key)
	a.receive.forget(key)
	a.dests--
}
