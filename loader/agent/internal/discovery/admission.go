// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"net/netip"
	"time"
)

// Entries are made for peers that nothing was sent to yet, once they have answered a HELLO
// at their address. A host with many addresses could fill the table with them, so the
// number of entries within a period is limited.
const (
	maxPerNet = 64 // of one /24 or /64
	maxInAll  = 4096
)

// Admission limits how many peers get an entry before anything is sent to them.
type Admission struct {
	period uint64 // ns
	since  uint64 // start of the period, monotonic ns
	total  int
	nets   map[netip.Prefix]int
}

// NewAdmission returns a limit whose period is the time that an unused entry lasts.
func NewAdmission(period time.Duration) *Admission { return &Admission{period: uint64(period)} }

// Admit reports whether one more peer may have an entry, and counts it. now is the
// monotonic clock in nanoseconds.
func (a *Admission) Admit(peer netip.Addr, now uint64) bool {
	if a.nets == nil || now-a.since > a.period {
		*a = Admission{period: a.period, since: now, nets: map[netip.Prefix]int{}}
	}
	bits := 64
	if peer.Is4() {
		bits = 24
	}
	net, err := peer.Prefix(bits)
	if err != nil || a.total >= maxInAll || a.nets[net] >= maxPerNet {
		return false
	}
	a.total++
	a.nets[net]++
	return true
}
