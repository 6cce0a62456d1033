// SPDX-License-Identifier: Apache-2.0

package nodefile

import "net/netip"

// Numbers assigns node numbers to addresses: those of the file, and for other addresses
// the numbers behind them, in order of first contact.
type Numbers struct {
	listed map[netip.Addr]uint32 // numbers of the file by unmapped address
	next   uint32                // number of the next address that the file does not list
}

// Numbers returns the numbers of a file before any contact.
func (f *File) Numbers() *Numbers {
	n := &Numbers{listed: map[netip.Addr]uint32{}, next: 1}
	for _, x := range f.Nodes {
		for _, a := range x.Addresses {
			n.listed[a.Unmap()] = x.Number
		}
		n.Used(x.Number)
	}
	return n
}

// Assign returns the number of an address. An address that the file does not list gets a
// new one with every call, so the caller stores it.
func (n *Numbers) Assign(a netip.Addr) uint32 {
	if x, ok := n.listed[a.Unmap()]; ok {
		return x
	}
	n.next++
	return n.next - 1
}

// Used reserves a number that was assigned earlier, by another process for example.
func (n *Numbers) Used(number uint32) { n.next = max(n.next, number+1) }

// Listed reports whether the file lists the address.
func (n *Numbers) Listed(a netip.Addr) bool { return n.listed[a.Unmap()] != 0 }
