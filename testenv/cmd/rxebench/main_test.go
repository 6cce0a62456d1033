// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestMedian(t *testing.T) {
	for _, tc := range []struct {
		of   []float64
		want float64
	}{{[]float64{7}, 7}, {[]float64{9, 1}, 5}, {[]float64{3, 1, 100}, 3}, {[]float64{1, 100, 2, 4}, 3}} {
		if got := median(tc.of); got != tc.want {
			t.Errorf("median of %v is %v, want %v", tc.of, got, tc.want)
		}
	}
}

// What perftest 24 prints with --report_gbits.
func TestAverage(t *testing.T) {
	const out = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n" +
		" 65536      327            0.00               0.086                0.000164\n"
	if got, err := average(out, 65536); err != nil || got != 0.086 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := average(out, 4096); err == nil {
		t.Errorf("another size: %v", got)
	}
}
