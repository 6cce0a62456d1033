// SPDX-License-Identifier: Apache-2.0

package tokenbucket

import "testing"

func TestBucket(t *testing.T) {
	const start, bytes = 1 << 40, 125
	for _, v := range All {
		b := Bucket{BurstNs: uint64(v.BurstNs)}
		if v.FrameNs != 0 {
			b.RateBps = bytes * 8 * 1_000_000_000 / uint64(v.FrameNs)
		}
		for i, p := range v.Packets {
			if leaves := b.Departure(start+uint64(p.At), bytes); leaves != start+uint64(p.Leaves) {
				t.Errorf("%s: packet %d leaves at %d, want %d", v.Name, i, leaves-start, p.Leaves)
			}
		}
		if v.FrameNs != 0 && b.NextTxNs != start+uint64(v.EmptyNs) {
			t.Errorf("%s: empty at %d, want %d", v.Name, b.NextTxNs-start, v.EmptyNs)
		}
	}
}
