// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// parseRate reads a rate in bits per second: 100M, 2.5G, 25Gbit, 400000000.
func parseRate(s string) (uint64, error) {
	t := strings.ToLower(strings.TrimSpace(s))
	for _, suffix := range []string{"bit/s", "bit", "bps"} {
		t = strings.TrimSuffix(t, suffix)
	}
	unit := 1.0
	if n := len(t); n > 0 {
		if i := strings.IndexByte("kmgt", t[n-1]); i >= 0 {
			unit, t = math.Pow(1000, float64(i+1)), t[:n-1]
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(t), 64)
	if err != nil || v <= 0 || v*unit > 1e14 || math.IsNaN(v) {
		return 0, fmt.Errorf("%q is no rate: write bits per second as 100M, 2.5G or 400000000", s)
	}
	return uint64(math.Round(v * unit)), nil
}

// formatRate writes a rate the way a person reads it: 97.3M, 10G.
func formatRate(bps uint64) string {
	v, units := float64(bps), []string{"", "k", "M", "G", "T"}
	i := 0
	for v >= 999.95 && i < len(units)-1 {
		v, i = v/1000, i+1
	}
	s := strconv.FormatFloat(v, 'f', 1, 64)
	return strings.TrimSuffix(s, ".0") + units[i]
}
