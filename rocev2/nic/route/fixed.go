// SPDX-License-Identifier: Apache-2.0

package route

// Fixed returns a path that always is in state s, without a table and a kernel. Tests of
// what uses paths work with it.
func Fixed(s State) *Path {
	p := &Path{table: &Table{}, refs: 1, base: s}
	p.current.Store(&s)
	return p
}
