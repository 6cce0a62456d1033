// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"time"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/bpf"
)

// idleLimit is how long a destination without any packet keeps its entry. Nodes
// of the node file keep theirs for good.
const idleLimit = 10 * time.Minute

// sweepBatch entries are looked at every sweepPeriod: the cost of ageing does not
// grow with the table, only the time that a round takes.
const (
	sweepBatch  = 128
	sweepPeriod = 250 * time.Millisecond
)

// A sweeper walks the table round and round and removes what is idle.
type sweeper struct {
	cursor ebpf.MapBatchCursor
	last   uint64
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
	n, err := a.att.Maps.DestTable.BatchLookup(&s.cursor, s.keys, s.regs, nil)
	for i := range n {
		if idle(&s.regs[i], now, a.clockOffset) {
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

// lastUsed is when the destination had its last packet, on the monotonic clock;
// the times in the table are on the clock of the stamps, which is ahead of it by
// offset.
func lastUsed(d *bpf.DestRegs, offset uint64) uint64 {
	last := max(d.LastTxNs, d.LastRxNs)
	return last - min(offset, last)
}

func idle(d *bpf.DestRegs, now, offset uint64) bool {
	last := lastUsed(d, offset)
	return now > last && now-last > uint64(idleLimit)
}

// forget removes a destination that has been idle for long.
func (a *Agent) forget(key bpf.DestKey, class uint32) {
	peer := bpf.AddrOf(key)
	if a.nodes.permanent(peer) {
		return
	}
	if err := a.att.Maps.DestTable.Delete(key); err != nil {
		return // gone already
	}
	if err := a.pacer.Release(class); err != nil {
		a.log.Warn("pacer", "peer", peer, "err", err)
	}
	a.hello.remove(key)
	delete(a.resyncs.last, key)
	delete(a.drains.all, key)
	delete(a.echoes.all, key)
	a.dests--
	a.evenShare()
}
