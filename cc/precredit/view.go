// SPDX-License-Identifier: Apache-2.0

package precredit

import (
	"cmp"
	"slices"
)

// Entry is a sender in the list of S5.2.
type Entry struct {
	ID          SenderID
	Share       uint32 // pre-credit of the sender, bytes
	Outstanding uint32 // given to it and not back, bytes
}

// List appends the list of S5.2 to dst and returns the longer slice: the largest share first,
// and of equal shares the oldest. It costs O(n log n).
func (r *Receiver) List(dst []Entry) []Entry {
	sorted := slices.Clone(r.list)
	slices.SortFunc(sorted, func(a, b *grantee) int {
		if a.share != b.share {
			return cmp.Compare(b.share, a.share)
		}
		return cmp.Compare(a.order, b.order)
	})
	for _, p := range sorted {
		dst = append(dst, Entry{p.id, p.share, p.outstanding()})
	}
	return dst
}

// Free is the part of the budget that is no sender's share, bytes.
func (r *Receiver) Free() uint32 { return r.free }

// Epoch is the number of the next account, from which a receiver that follows this one begins.
func (r *Receiver) Epoch() uint32 { return r.epoch }
