// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// A CDF is a distribution of flow sizes, straight lines between its points.
type CDF struct {
	Name   string
	points []Point
}

// Point says that Share (0 to 1) of the flows have at most Bytes.
type Point struct {
	Bytes int64
	Share float64
}

// NewCDF checks the points: at least two, sizes that grow, shares that do not
// fall, from share 0 to share 1.
func NewCDF(name string, points []Point) (*CDF, error) {
	if len(points) < 2 {
		return nil, fmt.Errorf("distribution %s: %d points, needs at least two", name, len(points))
	}
	for i, p := range points[1:] {
		before := points[i]
		if p.Bytes <= before.Bytes || !(p.Share >= before.Share) {
			return nil, fmt.Errorf("distribution %s: after %d bytes: %v comes %d bytes: %v; sizes must grow and shares must not fall",
				name, before.Bytes, before.Share, p.Bytes, p.Share)
		}
	}
	if first, last := points[0], points[len(points)-1]; first.Bytes < 0 || first.Share != 0 || last.Share != 1 {
		return nil, fmt.Errorf("distribution %s: goes from share %v to %v, must go from 0 to 1", name, first.Share, last.Share)
	}
	return &CDF{Name: name, points: slices.Clone(points)}, nil
}

// Mean is the mean flow size in bytes.
func (c *CDF) Mean() float64 {
	sum := 0.0
	for i, p := range c.points[1:] {
		before := c.points[i]
		sum += (p.Share - before.Share) * float64(p.Bytes+before.Bytes) / 2
	}
	return sum
}

// Size is the inverse of the distribution: the size that share u (0 to 1) of the
// flows does not exceed, at least one byte.
func (c *CDF) Size(u float64) int64 {
	i := 1
	for i < len(c.points)-1 && c.points[i].Share < u {
		i++
	}
	a, b := c.points[i-1], c.points[i]
	if b.Share <= a.Share {
		return max(1, a.Bytes)
	}
	at := min(1, max(0, (u-a.Share)/(b.Share-a.Share)))
	return max(1, a.Bytes+int64(math.Ceil(at*float64(b.Bytes-a.Bytes))))
}

// Share is the distribution itself: the share of flows of at most so many bytes.
func (c *CDF) Share(bytes int64) float64 {
	if bytes <= c.points[0].Bytes {
		return 0
	}
	for i, p := range c.points[1:] {
		if a := c.points[i]; bytes <= p.Bytes {
			return a.Share + (p.Share-a.Share)*float64(bytes-a.Bytes)/float64(p.Bytes-a.Bytes)
		}
	}
	return 1
}

// Sample draws a size.
func (c *CDF) Sample(r *rand.Rand) int64 { return c.Size(r.Float64()) }

// Points are those of the distribution, smallest first.
func (c *CDF) Points() []Point { return slices.Clone(c.points) }

// The flow sizes of the HPCC artefact (github.com/alibaba-edu/High-Precision-Congestion-Control,
// traffic_gen): web search from DCTCP (SIGCOMM 2010), Hadoop from "Inside the social
// network's datacenter network" (SIGCOMM 2015), storage from HPCC (SIGCOMM 2019).
var (
	WebSearch = must("websearch", []Point{{0, 0}, {10_000, .15}, {20_000, .20}, {30_000, .30}, {50_000, .40}, {80_000, .53}, {200_000, .60},
		{1_000_000, .70}, {2_000_000, .80}, {5_000_000, .90}, {10_000_000, .97}, {30_000_000, 1}})
	FBHadoop = must("hadoop", []Point{{0, 0}, {100, .01}, {200, .02}, {300, .05}, {350, .15}, {400, .20}, {500, .30}, {600, .40}, {700, .50},
		{1000, .60}, {2000, .67}, {7000, .70}, {30_000, .72}, {50_000, .82}, {80_000, .87}, {120_000, .90}, {300_000, .95},
		{1_000_000, .975}, {2_000_000, .99}, {10_000_000, 1}})
	AliStorage = must("storage", []Point{{0, 0}, {4000, .2293}, {8000, .6921}, {16_000, .8061}, {32_000, .9047}, {64_000, .9353}, {128_000, .9677},
		{256_000, .9753}, {2_000_000, 1}})
)

// All are the distributions that ByName knows.
func All() []*CDF { return []*CDF{WebSearch, FBHadoop, AliStorage} }

// ByName finds websearch, hadoop or storage.
func ByName(name string) (*CDF, error) {
	var names []string
	for _, c := range All() {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return nil, fmt.Errorf("%q is no distribution of flow sizes: choose %s", name, strings.Join(names, ", "))
}

func must(name string, points []Point) *CDF {
	c, err := NewCDF(name, points)
	if err != nil {
		panic(err)
	}
	return c
}
