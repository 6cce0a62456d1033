// SPDX-License-Identifier: Apache-2.0

package status

// This file summarises measurements.

import "slices"

// Median of an even number is the mean of the two in the middle.
func Median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
