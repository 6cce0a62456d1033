// SPDX-License-Identifier: Apache-2.0

package route

import "net/netip"

// FixedTable returns a table of an interface with these addresses, without a kernel. Nothing but
// GIDs and GID may be called. Tests of what uses tables work with it.
func FixedTable(gids ...netip.Addr) *Table {
	t := &Table{gids: gids}
	t.storeGIDs()
	return t
}

// Fixed returns a path that always is in state s, without a table and a kernel. Tests of
// what uses paths work with it.
func Fixed(s State) *Path {
	p := &Path{table: &Table{}, refs: 1, base: s}
	p.Set(&s)
	p.OnRelease(p.Release)
	return p
}
