// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"strings"
)

// AllowList are prefixes of hosts. An empty list has all addresses. Packets of others are dropped before their ICRC is
// computed, whichever queue pair they are for, queue pair 1 with the communication manager included. Packets of the
// core to itself are not limited.
type AllowList []netip.Prefix

// Has reports whether an address is in the list. IPv4 may come v4-mapped.
func (l AllowList) Has(a netip.Addr) bool {
	if len(l) == 0 {
		return true
	}
	a = a.Unmap().WithZone("")
	for _, p := range l {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// String returns the prefixes, with commas.
func (l AllowList) String() string {
	var all []string
	for _, p := range l {
		all = append(all, p.String())
	}
	return strings.Join(all, ",")
}
