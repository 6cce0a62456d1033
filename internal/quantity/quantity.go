// SPDX-License-Identifier: Apache-2.0

// Package quantity reads numbers with their units, as scenarios, the node file and the
// parameters of schemes write them.
package quantity

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

type kind struct {
	what, example string
	units         map[string]float64 // factors by lower case; "" where a plain number will do
	suffixes      []string           // suffixes that mean nothing
	min, max      float64
}

var (
	timeKind = kind{"time", "500ns, 10us, 1.5ms or 2s",
		map[string]float64{"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}, nil, -1e12, 1e12}
	rateKind = kind{"rate", "100Gbit/s, 2.5G or 400M",
		map[string]float64{"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}, []string{"bit/s", "bps", "bit"}, 1, 1e14}
	sizeKind = kind{"number of bytes", "1500B, 64KB, 64KiB or 1MB",
		map[string]float64{"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}, nil, 0, 1e15}
	shareKind = kind{"share", "0.95 or 95%",
		map[string]float64{"": 1, "%": percent}, nil, 0, 1e3}
	ppmKind = kind{"clock deviation", "50ppm",
		map[string]float64{"": 1, "ppm": 1}, nil, -1e5, 1e5}
)

// percent divides, as a hundredth has no exact factor.
const percent = -100

// Time reads nanoseconds: 500ns, 10us, 1.5ms, 2s.
func Time(s string) (int64, error) {
	v, err := timeKind.parse(s)
	return int64(math.Round(v)), err
}

// Rate reads bits per second: 100Gbit/s, 2.5G, 400M.
func Rate(s string) (float64, error) { return rateKind.parse(s) }

// Size reads bytes: 1500B, 64KB (64 000), 64KiB (65 536), 1MB.
func Size(s string) (int64, error) {
	v, err := sizeKind.parse(s)
	return int64(math.Round(v)), err
}

// Share reads a share of one, or a plain number: 0.95, 95%.
func Share(s string) (float64, error) { return shareKind.parse(s) }

// PPM reads a clock's deviation in millionths: 50ppm, -50ppm.
func PPM(s string) (float64, error) { return ppmKind.parse(s) }

func (k *kind) parse(s string) (float64, error) {
	s = strings.TrimSpace(s)
	t := strings.ToLower(s)
	for _, suffix := range k.suffixes {
		t = strings.TrimSuffix(t, suffix)
	}
	i := strings.LastIndexAny(t, "0123456789.") + 1
	v, err := strconv.ParseFloat(strings.TrimSpace(t[:i]), 64)
	unit, ok := k.units[strings.TrimSpace(t[i:])]
	if v == 0 && t == "0" {
		unit, ok = 1, true // nothing is nothing in every unit
	}
	if unit == percent {
		v /= 100
	} else {
		v *= unit
	}
	if err != nil || !ok || math.IsNaN(v) || v > k.max || v < k.min {
		return 0, fmt.Errorf("%q is no %s: write for example %s", s, k.what, k.example)
	}
	return v, nil
}
