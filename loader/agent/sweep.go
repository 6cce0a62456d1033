// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"time"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/bpf"
)

// idleLimit is the time after which a destination without any packet loses its entry. Nodes
// of the node file keep their entries.
const idleLimit = 10 * time.Minute

// sweepBatch entries are checked every sweepPeriod: the cost of a tick does not grow with the
// table, only the time that a whole round takes.
const (
	sweepBatch  = 128
	sweepPeriod = 250 * time.Millisecond
)

// sweeper walks the table again and again, and removes idle entries.
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

// lastUsed returns the time of the destination's last packet, monotonic ns. The times in the
// table are on the clock of the stamps, which is ahead of the monotonic clock by offset.
func lastUsed(d *bpf.DestRegs, offset uint64) uint64 {
	last := max(d.LastTxNs, d.LastRxNs)
	return last - min(offset, last)
}

func idle(d *bpf.DestRegs, now, offset uint64) bool {
	last := lastUsed(d, offset)
	return now > last && now-last > uint64(idleLimit)
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
	delete(a.resyncs.last, key)
	delete(a.drains.all, key)
	delete(a.echoes.all, key)
	a.dests--
	a.evenShare()
}
