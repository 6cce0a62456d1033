// SPDX-License-Identifier: Apache-2.0

package precredit

import "math/bits"

//go:generate go run ./internal/train -o tree_gen.go

// Verb is the transfer type (S5.3).
type Verb uint8

// The verbs.
const (
	VerbSend Verb = iota
	VerbWrite
	VerbRead
)

// Features are what a sender knows of a flow when it begins (S5.3).
type Features struct {
	// TotalBytes is the flow's size where the application says it, as one that
	// hands over a whole message does. 0 = it did not, or it is a stream.
	TotalBytes uint64
	// PostedBytes is the length of the work requests posted so far.
	PostedBytes uint64
	Verb        Verb
	// RegionBytes is the size of the registered region that the data lies in.
	RegionBytes uint64
	// BDPBytes is the bandwidth-delay product of the way, see BDP: a flow is
	// small if a first round trip can hold it. 0 = unknown, taken as 64 KiB.
	BDPBytes uint64
}

const unknownBDP = 64 << 10

// Normalized are features as the classifier takes them. Sizes are
// 16 × log2(size / BDP), from -256 to 256.
type Normalized [features]int16

// The places in Normalized.
const (
	featureTotal = iota
	featurePosted
	featureVerb
	featureRegion
	features
)

// Unknown is the normalised size of a flow of unknown size.
const Unknown = -300

// FeatureNames are what the features are called in reports.
var FeatureNames = [features]string{"total", "posted", "verb", "region"}

// Normalize brings features to the classifier's scale.
func (f *Features) Normalize() (n Normalized) {
	scale := log2(unknownBDP)
	if f.BDPBytes != 0 {
		scale = log2(f.BDPBytes)
	}
	size := func(bytes uint64) int16 {
		return int16(min(max(log2(max(bytes, 1))-scale, -256), 256))
	}
	n[featureTotal] = Unknown
	if f.TotalBytes != 0 {
		n[featureTotal] = size(f.TotalBytes)
	}
	n[featurePosted] = size(f.PostedBytes)
	n[featureVerb] = int16(f.Verb)
	n[featureRegion] = size(f.RegionBytes)
	return n
}

// log2 is 16 × the logarithm of v > 0, straight between powers of two, rounded down.
// It is off by less than 3.
func log2(v uint64) int {
	n := bits.Len64(v) - 1
	return n<<4 | int(v<<(63-n)>>59&15)
}

// node is a node of the tree. Features at most limit go on at the next node, larger
// ones at right; right 0 is a leaf.
type node struct {
	feature uint8
	right   uint8
	class   Class
	limit   int16
}

// Classify says whether a flow is small or large. A wrong answer costs time and
// nothing else: the class decides in which order packets get pre-credit.
//
// It is a decision tree of a few comparisons, trained by ./train.
func Classify(f Features) Class {
	return classify(tree, f.Normalize()).class
}

func classify(t []node, x Normalized) *node {
	i := 0
	for t[i].right != 0 {
		if x[t[i].feature] <= t[i].limit {
			i++
		} else {
			i = int(t[i].right)
		}
	}
	return &t[i]
}
