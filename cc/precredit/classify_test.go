// SPDX-License-Identifier: Apache-2.0

package precredit

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestClassify(t *testing.T) {
	const bdp = 150_000
	for _, c := range []struct {
		name string
		f    Features
		want Class
	}{
		{"a message of 1 KB", Features{1000, 1000, VerbSend, 1 << 20, bdp}, Small},
		{"one of a BDP less a bit", Features{140_000, 140_000, VerbWrite, 1 << 20, bdp}, Small},
		{"one of 1 MB", Features{1 << 20, 1 << 20, VerbWrite, 1 << 20, bdp}, Large},
		{"the same on a fatter way", Features{1 << 20, 1 << 20, VerbWrite, 1 << 20, 2 << 20}, Small},
		{"a stream's first 4 KB", Features{0, 4096, VerbSend, 1 << 30, bdp}, Small},
		{"a stream's first 1 MB", Features{0, 1 << 20, VerbWrite, 8 << 20, bdp}, Large},
		{"nothing is known", Features{}, Small},
	} {
		if got := Classify(c.f); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestNormalize(t *testing.T) {
	f := Features{TotalBytes: 1024, PostedBytes: 512, Verb: VerbRead, RegionBytes: math.MaxUint64, BDPBytes: 1024}
	if got, want := f.Normalize(), (Normalized{0, -16, 2, 256}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	f = Features{}
	if got, want := f.Normalize(), (Normalized{Unknown, -256, 0, -256}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestPropertyClassify: any features have a class, and larger sizes have no smaller
// normalised ones.
func TestPropertyClassify(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := Features{
			TotalBytes: rapid.Uint64().Draw(t, "total"), PostedBytes: rapid.Uint64().Draw(t, "posted"),
			Verb: Verb(rapid.Uint8().Draw(t, "verb")), RegionBytes: rapid.Uint64().Draw(t, "region"),
			BDPBytes: rapid.Uint64().Draw(t, "bdp"),
		}
		if c := Classify(f); c >= classes {
			t.Fatalf("class %d", c)
		}
		v := max(f.TotalBytes, 1)
		if l := log2(v); math.Abs(float64(l)-16*math.Log2(float64(v))) >= 3 {
			t.Fatalf("log2(%d) = %d", v, l)
		}
		if w := v + rapid.Uint64Range(0, math.MaxUint64-v).Draw(t, "more"); log2(w) < log2(v) {
			t.Fatalf("log2(%d) < log2(%d)", w, v)
		}
	})
}

// The tree is well formed: children lie behind their parent, so every walk ends.
func TestTreeEnds(t *testing.T) {
	for i, n := range tree {
		if n.right != 0 && (int(n.right) <= i+1 || int(n.right) >= len(tree) || n.feature >= features) || n.right == 0 && n.class >= classes {
			t.Errorf("node %d: %+v", i, n)
		}
	}
}

func BenchmarkClassify(b *testing.B) {
	f := Features{TotalBytes: 0, PostedBytes: 65536, Verb: VerbWrite, RegionBytes: 1 << 20, BDPBytes: 150_000}
	b.ReportAllocs()
	var sum int
	for i := 0; b.Loop(); i++ {
		f.PostedBytes = uint64(i)
		sum += int(Classify(f))
	}
	_ = sum
}
