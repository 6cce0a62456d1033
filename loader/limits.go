// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
)

// LiveLimits is the map limit_state in memory.
type LiveLimits struct {
	*bpf.LimitWords
	mem []byte
}

// HasLimits reports whether the maps of limits are there. An attachment of an earlier version has
// none, or not all of them, until it is upgraded.
func (a *Attachment) HasLimits() bool {
	m := &a.Maps
	return m.RateLimits != nil && m.ArrivalLimits != nil && m.ArrivalCounts != nil && m.LimitState != nil
}

// LiveLimits maps limit_state. An attachment of an earlier version has none until it is upgraded:
// then the words stay 0.
func (a *Attachment) LiveLimits() (*LiveLimits, error) {
	if a.Maps.LimitState == nil {
		return &LiveLimits{LimitWords: &bpf.LimitWords{}}, nil
	}
	mem, err := mapMemory(a.Maps.LimitState)
	if err != nil {
		return nil, fmt.Errorf("limit_state: %w", err)
	}
	return &LiveLimits{bpf.LimitStateOf(mem), mem}, nil
}

// Close unmaps it.
func (l *LiveLimits) Close() error {
	if l.mem == nil {
		return nil
	}
	return unix.Munmap(l.mem)
}

// Limits are the limits of an attachment: what peers let this host send, and what this host lets
// them send.
type Limits struct {
	Sending   map[bpf.DestKey]bpf.RateLimit
	Receiving map[bpf.DestKey]bpf.ArrivalLimit
	Dropped   map[bpf.DestKey]bpf.ArrivalCount
	Now       bpf.PriorityState // present division of the link among the hosts that send to this host
}

// Limits reads all limits.
func (a *Attachment) Limits() (Limits, error) {
	x := Limits{}
	if !a.HasLimits() {
		return x, nil
	}
	var words bpf.LimitWords
	if err := a.Maps.LimitState.Lookup(uint32(0), &words); err != nil {
		return x, fmt.Errorf("read limit_state: %w", err)
	}
	x.Now = words.Now
	x.Sending, x.Receiving, x.Dropped = all[bpf.RateLimit](a.Maps.RateLimits), all[bpf.ArrivalLimit](a.Maps.ArrivalLimits), all[bpf.ArrivalCount](a.Maps.ArrivalCounts)
	return x, nil
}

// all reads a map; entries that are created or deleted meanwhile may or may not be included.
func all[V any](m *ebpf.Map) map[bpf.DestKey]V {
	read := map[bpf.DestKey]V{}
	var key bpf.DestKey
	var v V
	for it := m.Iterate(); it.Next(&key, &v); {
		read[key] = v
	}
	return read
}
