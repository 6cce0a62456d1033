// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/softroce/softroce-xdp/internal/quantity"
)

// ParseRate reads bits per second, as in the node file.
func ParseRate(s string) (uint64, error) { return quantity.ParseRate(s) }

// ParseRateOrZero is ParseRate that takes 0, too, where 0 stands for something.
func ParseRateOrZero(s string) (uint64, error) {
	if strings.TrimSpace(s) == "0" {
		return 0, nil
	}
	return ParseRate(s)
}

// ParseBytes reads a number of bytes: 64, 4K, 1M, 2MiB; the letters stand for
// powers of 1024.
func ParseBytes(s string) (uint64, error) {
	t := strings.ToLower(strings.TrimSpace(s))
	t = strings.TrimSuffix(strings.TrimSuffix(t, "b"), "i")
	shift := 0
	if n := len(t); n > 0 {
		if i := strings.IndexByte("kmg", t[n-1]); i >= 0 {
			shift, t = 10*(i+1), t[:n-1]
		}
	}
	v, err := strconv.ParseUint(t, 10, 32)
	if err != nil || v == 0 {
		return 0, fmt.Errorf("%q is no number of bytes: write for example 64, 4K or 1M", s)
	}
	return v << shift, nil
}

// Bytes writes a number of bytes with a binary unit: 64B, 4KiB, 1.5GiB.
func Bytes(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, i := float64(n), 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0") + units[i]
}

// Rate writes bits per second with at most four digits: 97.3M, 10G.
func Rate(bps uint64) string { return scaled(float64(bps)) }

// Count writes a number of packets or bytes likewise: 950, 12.6k, 1.2M.
func Count(n uint64) string { return scaled(float64(n)) }

func scaled(v float64) string {
	units := []string{"", "k", "M", "G", "T", "P", "E"}
	i := 0
	for v >= 999.95 && i < len(units)-1 {
		v, i = v/1000, i+1
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0") + units[i]
}

// Nanos writes a signed time with a unit and about three digits: 850ns, 12.3us,
// -1.25ms, 2.5s.
func Nanos(ns int64) string { return quantity.Scaled(float64(ns), "ns", "us", "ms", "s") }

// ParseNanos reads a time that is not negative: 500us, 1.5ms, 10s.
func ParseNanos(s string) (uint64, error) {
	d, err := time.ParseDuration(strings.TrimSpace(s))
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no time: write a number and a unit, for example 500us, 1.5ms or 10s", s)
	}
	return uint64(d), nil
}

// Lasted writes how long something has lasted: 42s, 3m10s, 5h12m, 9d4h.
func Lasted(d time.Duration) string {
	d = d.Truncate(time.Second)
	day := 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	}
}

// one is 1 in the registers' Q10 fixed point.
const one = 1 << 10

// ParseShare reads a share of 1 as Q10 fixed point: 40%, 0.4.
func ParseShare(s string) (uint32, error) {
	t, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(t), 64)
	if percent {
		v /= 100
	}
	if err != nil || math.IsNaN(v) || v < 0 || v > 1 {
		return 0, fmt.Errorf("%q is no share: write a number from 0 to 1 or a percentage, for example 0.4 or 40%%", s)
	}
	return uint32(math.Round(v * one)), nil
}

// Share writes a Q10 share as a percentage: 39.94% reads back as the same value.
func Share(q10 uint32) string {
	s := strconv.FormatFloat(float64(q10)*100/one, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") + "%"
}
