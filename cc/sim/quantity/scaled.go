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
