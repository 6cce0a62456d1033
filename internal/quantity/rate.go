// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseRate reads bits per second: 100M, 2.5G, 25Gbit, 400000000.
func ParseRate(s string) (uint64, error) {
	t := strings.ToLower(strings.TrimSpace(s))
	for _, suffix := range []string{"bit/s", "bits", "bit", "bps"} {
		if cut, ok := strings.CutSuffix(t, suffix); ok {
			t = strings.TrimSpace(cut)
			break
		}
	}
	unit := 1.0
	if n := len(t); n > 0 {
		if i := strings.IndexByte("kmgt", t[n-1]); i >= 0 {
			unit, t = math.Pow(1000, float64(i+1)), t[:n-1]
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(t), 64)
	if err != nil || math.IsNaN(v) || v*unit < 1 || v*unit > 1e14 {
		return 0, fmt.Errorf("%q is no rate: write bits per second, for example 100M, 2.5G or 400000000", s)
	}
	return uint64(math.Round(v * unit)), nil
}
