// SPDX-License-Identifier: Apache-2.0

package precredit

import (
	"testing"

	"pgregory.net/rapid"
)

func TestBand(t *testing.T) {
	const bdp = 100_000
	for _, c := range []struct {
		reach Reach
		want  uint8
	}{
		{Reach{}, 0},
		{Reach{Known: 1}, 0},
		{Reach{Known: bdp}, 0},
		{Reach{Known: bdp + 1}, 1},
		{Reach{Known: 2 * bdp}, 1},
		{Reach{Known: 2*bdp + 1}, 2},
		{Reach{Known: 4 * bdp}, 2},
		{Reach{Known: 4*bdp + 1}, 3},
		{Reach{Known: 1 << 60}, 3},
		{Reach{Known: 10, Sent: bdp + 1}, 1},      // more came than was known
		{Reach{Known: 10, Class: Large}, 1},       // a stream, says the classifier
		{Reach{Known: 3 * bdp, Class: Small}, 2},  // which is not asked where the size is known
		{Reach{Known: 3 * bdp, Sent: 3 * bdp}, 2}, // what is left does not count
	} {
		if got := c.reach.Band(bdp, Bands); got != c.want {
			t.Errorf("%+v: band %d, want %d", c.reach, got, c.want)
		}
		if got := c.reach.Band(bdp, 1); got != 0 {
			t.Errorf("%+v: band %d of one", c.reach, got)
		}
	}
}

func TestTurn(t *testing.T) {
	const bdp = 100_000
	for _, c := range []struct {
		reach  Reach
		rounds uint64
		want   uint8
	}{
		{Reach{Known: bdp}, 0, 1},
		{Reach{Known: 2 * bdp}, 0, 2},
		{Reach{Known: 2 * bdp, Sent: bdp}, 0, 1},
		{Reach{Known: 16 * bdp}, 0, 5},
		{Reach{Known: 1 << 60}, 0, Turns - 1},
		{Reach{Known: 10, Sent: 4 * bdp}, 0, 3},
		{Reach{Known: 16 * bdp}, DefaultAge - 1, 5},
		{Reach{Known: 16 * bdp}, DefaultAge, 4},
		{Reach{Known: 16 * bdp}, 5 * DefaultAge, 1},
		{Reach{Known: 16 * bdp}, 2*Turns*DefaultAge - 1, 1},
		{Reach{Known: 16 * bdp}, 2 * Turns * DefaultAge, 0},
		{Reach{Known: 2 * bdp, Sent: bdp, Class: Large}, 0, 2}, // small ones are first
		{Reach{Known: 2 * bdp, Sent: bdp, Class: Large}, DefaultAge, 1},
	} {
		if got := c.reach.Turn(bdp, c.rounds, DefaultAge); got != c.want {
			t.Errorf("%+v after %d rounds: turn %d, want %d", c.reach, c.rounds, got, c.want)
		}
	}
	if got := (Reach{Known: 16 * bdp}).Turn(bdp, 1<<60, 0); got != 5 {
		t.Errorf("turn %d without aging, want 5", got)
	}
}

// A flow never moves to an earlier queue, or its packets would pass each other.
func TestPropertyBandNeverBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bdp := rapid.Uint64Range(0, 1<<24).Draw(t, "bdp")
		bands := rapid.IntRange(1, 6).Draw(t, "bands")
		r := Reach{Known: rapid.Uint64Range(0, 1<<30).Draw(t, "known"), Class: Class(rapid.IntRange(0, 1).Draw(t, "class"))}
		last := r.Band(bdp, bands)
		for range 64 {
			r.Sent += rapid.Uint64Range(1, 1<<22).Draw(t, "sent")
			band := r.Band(bdp, bands)
			if band < last || int(band) >= bands {
				t.Fatalf("%+v: band %d after %d, of %d", r, band, last, bands)
			}
			last = band
		}
	})
}

// Every flow is in the first turn after 2*Turns*age rounds, however much others
// bring, and until then waiting never puts it back.
func TestPropertyTurnComes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bdp, age := rapid.Uint64Range(0, 1<<24).Draw(t, "bdp"), rapid.Uint64Range(1, 1000).Draw(t, "age")
		r := Reach{Known: rapid.Uint64().Draw(t, "known"), Sent: rapid.Uint64().Draw(t, "sent")}
		last := uint8(Turns)
		for rounds := uint64(0); rounds <= 2*Turns*age; rounds += age {
			turn := r.Turn(bdp, rounds, age)
			if turn > last || turn >= Turns {
				t.Fatalf("%+v: turn %d after %d", r, turn, last)
			}
			last = turn
		}
		if last != 0 {
			t.Fatalf("%+v: still in turn %d", r, last)
		}
	})
}
