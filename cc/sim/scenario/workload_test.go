// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The means that the artefact's generator computes from the same points.
func TestMeans(t *testing.T) {
	for c, want := range map[*CDF]float64{WebSearch: 1_711_250, FBHadoop: 120_420.75, AliStorage: 40_869.8} {
		if got := c.Mean(); math.Abs(got-want) > 1e-6*want {
			t.Errorf("%s: mean %.2f, want %.2f", c.Name, got, want)
		}
	}
}

// A hundred thousand samples have the distribution's mean and quantiles.
func TestSamples(t *testing.T) {
	for _, c := range All() {
		r := NewRand(1, 0)
		sizes := make([]int64, 100_000)
		sum := 0.0
		for i := range sizes {
			sizes[i] = c.Sample(r)
			sum += float64(sizes[i])
		}
		if got := sum / float64(len(sizes)); math.Abs(got-c.Mean()) > .05*c.Mean() {
			t.Errorf("%s: mean of the samples %.0f, want %.0f within 5 %%", c.Name, got, c.Mean())
		}
		slices.Sort(sizes)
		for _, p := range c.Points()[1:] {
			below, _ := slices.BinarySearch(sizes, p.Bytes+1)
			if got := float64(below) / float64(len(sizes)); math.Abs(got-p.Share) > .01 {
				t.Errorf("%s: %.3f of the samples have at most %d bytes, want %.3f", c.Name, got, p.Bytes, p.Share)
			}
		}
	}
}

func TestSizeInvertsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(All()).Draw(t, "distribution")
		u := rapid.Float64Range(0, 1).Draw(t, "share")
		size := c.Size(u)
		first := c.Points()[0].Bytes
		if c.Share(size) < u-1e-9 || size-1 > first && c.Share(size-1) > u+1e-9 {
			t.Fatalf("share %v gives %d bytes, of which the share is %v (one byte less: %v)", u, size, c.Share(size), c.Share(size-1))
		}
	})
}

func TestBadCDF(t *testing.T) {
	for name, points := range map[string][]Point{
		"one point":     {{0, 0}},
		"sizes fall":    {{0, 0}, {10, .5}, {5, 1}},
		"shares fall":   {{0, 0}, {10, .5}, {20, .4}, {30, 1}},
		"no number":     {{0, 0}, {10, math.NaN()}, {20, 1}},
		"ends early":    {{0, 0}, {10, .9}},
		"starts late":   {{0, .1}, {10, 1}},
		"negative":      {{-1, 0}, {10, 1}},
		"two of a size": {{0, 0}, {10, .5}, {10, 1}},
	} {
		if _, err := NewCDF("x", points); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := ByName("webserch"); err == nil || !strings.Contains(err.Error(), "websearch") {
		t.Errorf("unknown name: %v", err)
	}
}

func TestUniformMakesTheLoad(t *testing.T) {
	u := Uniform{Sizes: FBHadoop, Hosts: 16, RateBps: 100e9, Load: .5, From: 1e6, To: 101e6}
	flows, err := u.Flows(NewRand(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	var bytes int64
	received := make([]int, u.Hosts)
	for i, f := range flows {
		bytes += f.Bytes
		received[f.Dst]++
		if f.Src == f.Dst || f.Src < 0 || f.Src >= u.Hosts || f.Dst < 0 || f.Dst >= u.Hosts {
			t.Fatalf("from host %d to host %d of %d", f.Src, f.Dst, u.Hosts)
		}
		if f.At < u.From || f.At >= u.To || i > 0 && f.At < flows[i-1].At {
			t.Fatalf("flow %d at %d ns", i, f.At)
		}
	}
	offered := float64(bytes) * 8 / .1 / (float64(u.RateBps) * float64(u.Hosts))
	if math.Abs(offered-u.Load) > .03 {
		t.Errorf("offers %.3f of the capacity, want %.2f", offered, u.Load)
	}
	for h, n := range received {
		if share := float64(n) / float64(len(flows)) * float64(u.Hosts); share < .9 || share > 1.1 {
			t.Errorf("host %d receives %.2f of its share", h, share)
		}
	}
	again, _ := u.Flows(NewRand(1, 0))
	other, _ := u.Flows(NewRand(2, 0))
	if !slices.Equal(flows, again) || slices.Equal(flows, other) {
		t.Error("the flows do not follow the seed")
	}
}

func TestIncast(t *testing.T) {
	n := IncastFlows{Senders: 60, Bytes: 500_000, Hosts: 320, RateBps: 100e9, Load: .02, To: 1e9}
	flows, err := n.Flows(NewRand(3, 1))
	if err != nil {
		t.Fatal(err)
	}
	if len(flows)%n.Senders != 0 {
		t.Fatalf("%d flows of %d senders each", len(flows), n.Senders)
	}
	for group := range slices.Chunk(flows, n.Senders) {
		seen := map[int]bool{group[0].Dst: true}
		for _, f := range group {
			if seen[f.Src] || f.Dst != group[0].Dst || f.At != group[0].At || f.Bytes != n.Bytes {
				t.Fatalf("one incast has %+v", group)
			}
			seen[f.Src] = true
		}
	}
	offered := float64(len(flows)) * 8 * float64(n.Bytes) / (float64(n.RateBps) * float64(n.Hosts))
	if math.Abs(offered-n.Load) > .002 {
		t.Errorf("offers %.4f of the capacity, want %.2f", offered, n.Load)
	}
}

func TestBadPatterns(t *testing.T) {
	r := NewRand(1, 0)
	for name, p := range map[string]interface {
		Flows(r *rand.Rand) ([]Flow, error)
	}{
		"one host":        Uniform{Sizes: FBHadoop, Hosts: 1, RateBps: 1, Load: .5, To: 1},
		"no load":         Uniform{Sizes: FBHadoop, Hosts: 2, RateBps: 1, To: 1},
		"no rate":         Uniform{Sizes: FBHadoop, Hosts: 2, Load: .5, To: 1},
		"ends before":     Uniform{Sizes: FBHadoop, Hosts: 2, RateBps: 1, Load: .5, From: 2, To: 1},
		"too many":        IncastFlows{Senders: 8, Bytes: 1, Hosts: 8, RateBps: 1, Load: .5, To: 1},
		"nothing to send": IncastFlows{Senders: 7, Hosts: 8, RateBps: 1, Load: .5, To: 1},
	} {
		if _, err := p.Flows(r); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestMerge(t *testing.T) {
	got := Merge([]Flow{{At: 1, Src: 1}, {At: 5, Src: 1}}, []Flow{{At: 1, Src: 2}, {At: 2, Src: 2}})
	want := []Flow{{At: 1, Src: 1}, {At: 1, Src: 2}, {At: 2, Src: 2}, {At: 5, Src: 1}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
