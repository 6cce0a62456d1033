// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/bpf"
)

// limitsBatch is how many limits are read in one call.
const limitsBatch = 64

// limits has what peers let this host send to them (RATE_LIMIT, S1.8). The data plane checks the
// packets and stores the limits; this is a copy, read again when one has changed.
type limits struct {
	table *ebpf.Map       // rate_limits
	words *bpf.LimitWords // limit_state, in memory
	read  uint32          // words.Received of the copy
	all   map[bpf.DestKey]bpf.RateLimit

	keys   [limitsBatch]bpf.DestKey
	values [limitsBatch]bpf.RateLimit
}

// newLimits reads the limits that an earlier agent has left.
func newLimits(table *ebpf.Map, words *bpf.LimitWords) *limits {
	if table == nil {
		return &limits{words: words} // attached by an earlier version
	}
	x := &limits{table: table, words: words, read: atomic.LoadUint32(&words.Received) - 1}
	x.refresh()
	return x
}

// refresh reads the limits if one has changed.
func (x *limits) refresh() {
	received := atomic.LoadUint32(&x.words.Received)
	if received == x.read {
		return
	}
	x.read, x.all = received, map[bpf.DestKey]bpf.RateLimit{}
	var cursor ebpf.MapBatchCursor
	for {
		n, err := x.table.BatchLookup(&cursor, x.keys[:], x.values[:], nil)
		for i := range n {
			x.all[x.keys[i]] = x.values[i]
		}
		if err != nil { // the end
			return
		}
	}
}

// of returns the limit of a peer in bit/s, 0 = none.
func (x *limits) of(key bpf.DestKey, now uint64) uint64 {
	limit, found := x.all[key]
	if !found || now >= limit.UntilNs {
		return 0
	}
	return limit.RateBps
}

// forget removes the limit of a peer whose entry was deleted.
func (x *limits) forget(key bpf.DestKey) {
	if _, found := x.all[key]; found {
		delete(x.all, key)
		_ = x.table.Delete(key) // it is gone already, or replaced by the next RATE_LIMIT
	}
}
