// SPDX-License-Identifier: Apache-2.0

package poolstore

import (
	"cmp"
	"slices"
)

// FillLast has new pages placed in the slabs that the server takes back first, until the next
// lease.
func (s *Store) FillLast() {
	s.mu.Lock()
	slices.SortFunc(s.l.order, func(a, b uint32) int { return cmp.Compare(b, a) })
	s.mu.Unlock()
}
