// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/cc/precredit"
)

// TestTreeIsInStep checks that the committed tree_gen.go is what the trainer writes.
func TestTreeIsInStep(t *testing.T) {
	out := filepath.Join(t.TempDir(), "tree.go")
	if err := run(out, nil); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../tree_gen.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("tree_gen.go is out of step: run `go generate ./cc/precredit`\n%s", want)
	}
}

// The tree is right about flows that it has not seen: nearly always if the size is
// known, and more often than the simple rules if it is not.
func TestAccuracy(t *testing.T) {
	tree := grow(dataset(trainSeed, perSizes), maxDepth, minLeaf)
	test := dataset(testSeed, perSizes)
	known := scores(tree, pick(test, func(s sample) bool { return s.known }))
	if known.right*1000 < known.flows*998 {
		t.Errorf("known sizes: %d of %d right", known.right, known.flows)
	}
	streams := scores(tree, pick(test, func(s sample) bool { return !s.known }))
	if streams.right <= streams.posted || streams.right <= streams.majority {
		t.Errorf("streams: %+v", streams)
	}
}

func TestReport(t *testing.T) {
	var b strings.Builder
	if err := run("", &b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| websearch | known |", "| storage | unknown |", "| all | both | 90000 |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no line %q in\n%s", want, b.String())
		}
	}
}

// The gain is that of the definition: 1 - Gini, summed over the sides.
func TestGain(t *testing.T) {
	pure := gain(10, 10, 0, 10) // 10 + 10
	half := gain(5, 10, 5, 10)  // 5 + 5
	if pure != (fraction{2000, 100}) || half != (fraction{1000, 100}) || !half.less(pure) || pure.less(half) || pure.less(pure) {
		t.Errorf("%v %v", pure, half)
	}
	big := fraction{1 << 60, 1}
	if !(fraction{1<<60 - 1, 1}).less(big) || big.less(fraction{1 << 61, 2}) {
		t.Error("comparison of large fractions")
	}
}

func TestGrowSeparates(t *testing.T) {
	var flows []sample
	for i := range 100 {
		var x precredit.Normalized
		x[3] = int16(i)
		flows = append(flows, sample{x: x, small: i < 30})
	}
	tree := grow(flows, 3, 1)
	if len(tree) != 3 || tree[0].feature != 3 || tree[0].limit != 29 || tree[1].class() != precredit.Small || tree[2].class() != precredit.Large {
		t.Errorf("%+v", tree)
	}
}
