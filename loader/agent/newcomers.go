// SPDX-License-Identifier: Apache-2.0

package agent

import "net/netip"

// Entries are made for peers that nothing was sent to yet, once they have answered a HELLO
// at their address. Who holds many addresses could fill the table with them: so many are
// admitted within idleLimit, which is the time that an unused entry lasts.
const (
	newcomersPerNet = 64 // of one /24 or /64
	newcomersLimit  = 4096
)

// newcomers counts them.
type newcomers struct {
	since uint64 // start of the time that is counted
	total int
	nets  map[netip.Prefix]int
}

// admit reports whether one more peer may have an entry, and counts it. now is the
// monotonic clock.
func (n *newcomers) admit(peer netip.Addr, now uint64) bool {
	if n.nets == nil || now-n.since > uint64(idleLimit) {
		*n = newcomers{since: now, nets: map[netip.Prefix]int{}}
	}
	bits := 64
	if peer.Is4() {
		bits = 24
	}
	net, err := peer.Prefix(bits)
	if err != nil || n.total >= newcomersLimit || n.nets[net] >= newcomersPerNet {
		return false
	}
	n.total++
	n.nets[net]++
	return true
}
