// SPDX-License-Identifier: Apache-2.0

package netbench

import "testing"

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
