// SPDX-License-Identifier: Apache-2.0

package route

import (
	"net/netip"
	"slices"
)

// gidTable numbers the interface's addresses as the kernel's RDMA core does: index 0
// is the IPv6 link-local address, and nothing else; the others take the lowest free
// index and keep it for as long as they exist. An address that is not valid is a gap.
type gidTable []netip.Addr

func (g gidTable) has(a netip.Addr) bool { return a.IsValid() && slices.Contains(g, a) }

// update returns the table for the addresses that exist now, and what changed. g is
// not written to: readers may have it.
func (g gidTable) update(addrs []netip.Addr) (gidTable, []Event) {
	next := slices.Clone(g)
	if len(next) == 0 {
		next = gidTable{{}}
	}
	var events []Event
	for i, a := range next {
		if a.IsValid() && !slices.Contains(addrs, a) {
			next[i] = netip.Addr{}
			events = append(events, Event{Kind: GIDRemoved, Index: i, Addr: a})
		}
	}
	for _, a := range addrs {
		if next.has(a) {
			continue
		}
		i := 0
		if next[0].IsValid() || !a.Is6() || !a.IsLinkLocalUnicast() {
			i = 1 + slices.IndexFunc(next[1:], func(x netip.Addr) bool { return !x.IsValid() })
			if i == 0 {
				i = len(next)
				next = append(next, netip.Addr{})
			}
		}
		next[i] = a
		events = append(events, Event{Kind: GIDAdded, Index: i, Addr: a})
	}
	for len(next) > 1 && !next[len(next)-1].IsValid() {
		next = next[:len(next)-1]
	}
	return next, events
}
