// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
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

type quantity struct {
	what, example string
	units         map[string]float64 // by lower case; "" where a plain number will do
	min, max      float64
}

var (
	timeUnits = quantity{"time", "500ns, 10us, 1.5ms or 2s",
		map[string]float64{"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}, -1e12, 1e12}
	rateUnits = quantity{"rate", "100Gbit/s, 2.5G or 400M",
		map[string]float64{"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}, 1, 1e14}
	sizeUnits = quantity{"number of bytes", "1500B, 64KB, 64KiB or 1MB",
		map[string]float64{"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}, 0, 1e15}
	shareUnits = quantity{"share", "0.95 or 95%",
		map[string]float64{"": 1, "%": .01}, 0, 1e3}
	ppmUnits = quantity{"clock deviation", "50ppm",
		map[string]float64{"": 1, "ppm": 1}, -1e5, 1e5}
)

// parse reads a number and its unit.
func (q *quantity) parse(s string) (float64, error) {
	s = strings.TrimSpace(s)
	t := strings.ToLower(s)
	if q == &rateUnits {
		for _, suffix := range []string{"bit/s", "bps", "bit"} {
			t = strings.TrimSuffix(t, suffix)
		}
	}
	i := len(t)
	for i > 0 && !(t[i-1] >= '0' && t[i-1] <= '9' || t[i-1] == '.') {
		i--
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(t[:i]), 64)
	unit, ok := q.units[strings.TrimSpace(t[i:])]
	if v == 0 && t == "0" {
		unit, ok = 1, true // nothing is nothing in every unit
	}
	if unit == .01 {
		v /= 100 // to the last digit, as v times .01 is not
	} else {
		v *= unit
	}
	if err != nil || !ok || math.IsNaN(v) || v > q.max || v < q.min {
		return 0, fmt.Errorf("%q is no %s: write for example %s", s, q.what, q.example)
	}
	return v, nil
}

func unmarshal[T ~int64 | ~uint64 | ~float64](q *quantity, n *yaml.Node, to *T) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: expected a %s, for example %s", n.Line, q.what, q.example)
	}
	v, err := q.parse(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	if T(1)/2 == 0 { // an integer
		v = math.Round(v)
	}
	*to = T(v)
	return nil
}

func (t *Time) UnmarshalYAML(n *yaml.Node) error  { return unmarshal(&timeUnits, n, t) }
func (r *Rate) UnmarshalYAML(n *yaml.Node) error  { return unmarshal(&rateUnits, n, r) }
func (s *Size) UnmarshalYAML(n *yaml.Node) error  { return unmarshal(&sizeUnits, n, s) }
func (s *Share) UnmarshalYAML(n *yaml.Node) error { return unmarshal(&shareUnits, n, s) }
func (p *PPM) UnmarshalYAML(n *yaml.Node) error   { return unmarshal(&ppmUnits, n, p) }

// String writes a time with about three digits: 850ns, 12.3us, 1.25ms.
func (t Time) String() string { return scaled(float64(t), 1, "ns", "us", "ms", "s") }

// String writes bit/s: 97.3Mbit/s, 100Gbit/s.
func (r Rate) String() string {
	return scaled(float64(r), 1, "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s")
}

// String writes bytes: 1.5KB, 32MB.
func (s Size) String() string { return scaled(float64(s), 1, "B", "KB", "MB", "GB", "TB") }

func (s Share) String() string {
	return strconv.FormatFloat(math.Round(float64(s)*1e6)/1e6, 'f', -1, 64)
}
func (p PPM) String() string { return strconv.FormatFloat(float64(p), 'f', -1, 64) + "ppm" }

// scaled writes about three digits of v in the largest unit in which it is not
// below one.
func scaled(v, unit float64, units ...string) string {
	sign := ""
	if v < 0 {
		sign, v = "-", -v
	}
	i := 0
	for v /= unit; v >= 999.5 && i < len(units)-1; i++ {
		v /= 1000
	}
	digits := 2
	switch {
	case v >= 100:
		digits = 0
	case v >= 10:
		digits = 1
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return sign + s + units[i]
}
