// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"math"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/softroce/softroce-xdp/internal/quantity"
)

// Quantities of a scenario, each written with its unit.
type (
	// Time is a span in nanoseconds: 500ns, 10us, 1.5ms, 2s.
	Time int64
	// Rate is bit/s: 100Gbit/s, 100G, 2.5Gbit/s.
	Rate uint64
	// Size is bytes: 1500B, 64KB (64 000), 64KiB (65 536), 1MB.
	Size int64
	// Share is a share of one: 0.95, 95%.
	Share float64
	// PPM is a clock's deviation in millionths: 50ppm, -50ppm.
	PPM float64
)

// reader is how one of them is read.
type reader struct {
	what, example string
	parse         func(string) (float64, error)
}

var (
	timeUnits  = reader{"time", "500ns, 10us, 1.5ms or 2s", whole(quantity.Time)}
	rateUnits  = reader{"rate", "100Gbit/s, 2.5G or 400M", quantity.Rate}
	sizeUnits  = reader{"number of bytes", "1500B, 64KB, 64KiB or 1MB", whole(quantity.Size)}
	shareUnits = reader{"share", "0.95 or 95%", quantity.Share}
	ppmUnits   = reader{"clock deviation", "50ppm", quantity.PPM}
)

func whole(parse func(string) (int64, error)) func(string) (float64, error) {
	return func(s string) (float64, error) {
		v, err := parse(s)
		return float64(v), err
	}
}

func unmarshal[T ~int64 | ~uint64 | ~float64](q reader, n *yaml.Node, to *T) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: expected a %s, for example %s", n.Line, q.what, q.example)
	}
	v, err := q.parse(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	*to = T(v)
	return nil
}

func (t *Time) UnmarshalYAML(n *yaml.Node) error  { return unmarshal(timeUnits, n, t) }
func (r *Rate) UnmarshalYAML(n *yaml.Node) error  { return unmarshal(rateUnits, n, r) }
func (s *Size) UnmarshalYAML(n *yaml.Node) error  { return unmarshal(sizeUnits, n, s) }
func (s *Share) UnmarshalYAML(n *yaml.Node) error { return unmarshal(shareUnits, n, s) }
func (p *PPM) UnmarshalYAML(n *yaml.Node) error   { return unmarshal(ppmUnits, n, p) }

// String writes a time with about three digits: 850ns, 12.3us, 1.25ms.
func (t Time) String() string { return quantity.Scaled(float64(t), "ns", "us", "ms", "s") }

// String writes bit/s: 97.3Mbit/s, 100Gbit/s.
func (r Rate) String() string {
	return quantity.Scaled(float64(r), "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s")
}

// String writes bytes: 1.5KB, 32MB.
func (s Size) String() string { return quantity.Scaled(float64(s), "B", "KB", "MB", "GB", "TB") }

func (s Share) String() string {
	return strconv.FormatFloat(math.Round(float64(s)*1e6)/1e6, 'f', -1, 64)
}
func (p PPM) String() string { return strconv.FormatFloat(float64(p), 'f', -1, 64) + "ppm" }
