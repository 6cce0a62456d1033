// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// TestPatternGolden pins the pattern to published values of splitmix64: those of seed 1234567.
func TestPatternGolden(t *testing.T) {
	want := []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821}
	for i, w := range want {
		if got := patternWord(1234567, uint64(i)); got != w {
			t.Errorf("word %d: %d, want %d", i, got, w)
		}
	}
	b := make([]byte, 11)
	fillPattern(b, 1234567, 0)
	if got := hex.EncodeToString(b); got != "85fc08fb17d09e59a50f54" {
		t.Errorf("bytes %s", got)
	}
}

// TestPatternPieces shows that a pattern is the same in one piece and in many, and that a check
// finds what was changed.
func TestPatternPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		n := rapid.IntRange(1, 200).Draw(t, "len")
		skip := rapid.Uint64Range(0, 50).Draw(t, "skip")
		whole := make([]byte, int(skip)+n)
		fillPattern(whole, seed, 0)
		part := make([]byte, n)
		fillPattern(part, seed, skip)
		if !bytes.Equal(part, whole[skip:]) {
			t.Fatalf("from %d on: %x, want %x", skip, part, whole[skip:])
		}
		if m := checkPattern(part, seed, skip); m.Bad != 0 || m.First != -1 {
			t.Fatalf("the pattern itself: %+v", m)
		}
		i := rapid.IntRange(0, n-1).Draw(t, "bad byte")
		part[i] ^= 1
		if m := checkPattern(part, seed, skip); m.Bad != 1 || m.First != i {
			t.Fatalf("byte %d changed: %+v", i, m)
		}
	})
}

// TestPatternInMachine compares the helper's pattern with ours, byte for byte.
func TestPatternInMachine(t *testing.T) {
	_, p := machines(t)
	pd, err := p.a.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	mr, err := p.a.NewMemory(pd, 3000, 5, verbs.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(mr.Deregister(), pd.Free()); err != nil {
			t.Error(err)
		}
	}()
	for _, skip := range []uint64{0, 3, 8} {
		if err := fill(mr, 7, 2001, 42, skip); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 2001)
		if _, err := mr.ReadAt(got, 7); err != nil {
			t.Fatal(err)
		}
		if m := checkPattern(got, 42, skip); m.Bad > 0 {
			t.Errorf("skip %d: %+v", skip, m)
		}
		got[1000] ^= 0xFF
		if _, err := mr.WriteAt(got, 7); err != nil {
			t.Fatal(err)
		}
		if m, err := check(mr, 7, 2001, 42, skip); err != nil || m.Bad != 1 || m.First != 1000 {
			t.Errorf("byte 1000 changed: %+v, %v", m, err)
		}
	}
	if err := fill(mr, 2000, 1001, 1, 0); err == nil {
		t.Error("filled beyond the region")
	}
}
