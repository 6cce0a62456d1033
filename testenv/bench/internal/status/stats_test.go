// SPDX-License-Identifier: Apache-2.0

package status

import "testing"

func TestMedian(t *testing.T) {
	for _, tc := range []struct {
		of   []float64
		want float64
	}{{[]float64{7}, 7}, {[]float64{9, 1}, 5}, {[]float64{3, 1, 100}, 3}, {[]float64{1, 100, 2, 4}, 3}} {
		if got := Median(tc.of); got != tc.want {
			t.Errorf("median of %v is %v, want %v", tc.of, got, tc.want)
		}
	}
}
