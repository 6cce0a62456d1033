// SPDX-License-Identifier: Apache-2.0

package precredit

import (
	"testing"

	"pgregory.net/rapid"
)

func TestBand(t *testing.T) {
	const bdp = 100_000
	for _, c := range []struct {
		size FlowSize
		want uint8
	}{
		{FlowSize{}, 0},
		{FlowSize{KnownBytes: 1}, 0},
		{FlowSize{KnownBytes: bdp}, 0},
		{FlowSize{KnownBytes: bdp + 1}, 1},
		{FlowSize{KnownBytes: 2 * bdp}, 1},
		{FlowSize{KnownBytes: 2*bdp + 1}, 2},
		{FlowSize{KnownBytes: 4 * bdp}, 2},
		{FlowSize{KnownBytes: 4*bdp + 1}, 3},
		{FlowSize{KnownBytes: 1 << 60}, 3},
		{FlowSize{KnownBytes: 10, SentBytes: bdp + 1}, 1},      // more came than was known
		{FlowSize{KnownBytes: 10, Class: Large}, 1},            // a stream, says the classifier
		{FlowSize{KnownBytes: 3 * bdp, Class: Small}, 2},       // which is not asked where the size is known
		{FlowSize{KnownBytes: 3 * bdp, SentBytes: 3 * bdp}, 2}, // what is left does not count
	} {
		if got := c.size.QueueIndex(bdp, SwitchQueues); got != c.want {
			t.Errorf("%+v: band %d, want %d", c.size, got, c.want)
		}
		if got := c.size.QueueIndex(bdp, 1); got != 0 {
			t.Errorf("%+v: band %d of one", c.size, got)
		}
	}
}

func TestRank(t *testing.T) {
	const bdp = 100_000
	for _, c := range []struct {
		size   FlowSize
		rounds uint64
		want   uint8
	}{
		{FlowSize{KnownBytes: bdp}, 0, 1},
		{FlowSize{KnownBytes: 2 * bdp}, 0, 2},
		{FlowSize{KnownBytes: 2 * bdp, SentBytes: bdp}, 0, 1},
		{FlowSize{KnownBytes: 16 * bdp}, 0, 5},
		{FlowSize{KnownBytes: 1 << 60}, 0, Ranks - 1},
		{FlowSize{KnownBytes: 10, SentBytes: 4 * bdp}, 0, 3},
		{FlowSize{KnownBytes: 16 * bdp}, DefaultAge - 1, 5},
		{FlowSize{KnownBytes: 16 * bdp}, DefaultAge, 4},
		{FlowSize{KnownBytes: 16 * bdp}, 5 * DefaultAge, 1},
		{FlowSize{KnownBytes: 16 * bdp}, 2*Ranks*DefaultAge - 1, 1},
		{FlowSize{KnownBytes: 16 * bdp}, 2 * Ranks * DefaultAge, 0},
		{FlowSize{KnownBytes: 2 * bdp, SentBytes: bdp, Class: Large}, 0, 2}, // small ones are first
		{FlowSize{KnownBytes: 2 * bdp, SentBytes: bdp, Class: Large}, DefaultAge, 1},
	} {
		if got := c.size.Rank(bdp, c.rounds, DefaultAge); got != c.want {
			t.Errorf("%+v after %d rounds: turn %d, want %d", c.size, c.rounds, got, c.want)
		}
	}
	if got := (FlowSize{KnownBytes: 16 * bdp}).Rank(bdp, 1<<60, 0); got != 5 {
		t.Errorf("turn %d without aging, want 5", got)
	}
}

// A flow never moves to an earlier queue, or its packets would pass each other.
func TestPropertyBandNeverBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bdp := rapid.Uint64Range(0, 1<<24).Draw(t, "bdp")
		bands := rapid.IntRange(1, 6).Draw(t, "bands")
		r := FlowSize{KnownBytes: rapid.Uint64Range(0, 1<<30).Draw(t, "known"), Class: Class(rapid.IntRange(0, 1).Draw(t, "class"))}
		last := r.QueueIndex(bdp, bands)
		for range 64 {
			r.SentBytes += rapid.Uint64Range(1, 1<<22).Draw(t, "sent")
			band := r.QueueIndex(bdp, bands)
			if band < last || int(band) >= bands {
				t.Fatalf("%+v: band %d after %d, of %d", r, band, last, bands)
			}
			last = band
		}
	})
}

// Every flow is in the first turn after 2*Ranks*age rounds, however much others
// bring, and until then waiting never puts it back.
func TestPropertyTurnComes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bdp, age := rapid.Uint64Range(0, 1<<24).Draw(t, "bdp"), rapid.Uint64Range(1, 1000).Draw(t, "age")
		r := FlowSize{KnownBytes: rapid.Uint64().Draw(t, "known"), SentBytes: rapid.Uint64().Draw(t, "sent")}
		last := uint8(Ranks)
		for rounds := uint64(0); rounds <= 2*Ranks*age; rounds += age {
			turn := r.Rank(bdp, rounds, age)
			if turn > last || turn >= Ranks {
				t.Fatalf("%+v: turn %d after %d", r, turn, last)
			}
			last = turn
		}
		if last != 0 {
			t.Fatalf("%+v: still in turn %d", r, last)
		}
	})
}
