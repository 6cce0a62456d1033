// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"strconv"
	"strings"
)

// Scaled writes v, which is in the first of the units, with about three digits in the
// largest one in which it is not below one: 850ns, 12.3us, -1.25ms. Each unit is a
// thousand of the one before.
func Scaled(v float64, units ...string) string {
	sign := ""
	if v < 0 {
		sign, v = "-", -v
	}
	i := 0
	for ; v >= 999.5 && i < len(units)-1; i++ {
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

// ExactRate writes bits per second with all digits, for errors about bounds: 1.5Gbit/s.
func ExactRate(bps uint64) string {
	return exact(bps, "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s")
}

// ExactTime writes nanoseconds likewise: 1.5ms.
func ExactTime(ns uint64) string { return exact(ns, "ns", "us", "ms", "s") }

func exact(n uint64, units ...string) string {
	i, unit := 0, 1.0
	for ; float64(n) >= 1000*unit && i < len(units)-1; i++ {
		unit *= 1000
	}
	return strconv.FormatFloat(float64(n)/unit, 'f', -1, 64) + units[i]
}
