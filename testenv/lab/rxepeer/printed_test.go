// SPDX-License-Identifier: Apache-2.0

package rxepeer

import "testing"

// What perftest 24 prints with --report_gbits.
func TestPerftestFigure(t *testing.T) {
	const out = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n" +
		" 65536      327            0.00               0.086                0.000164\n"
	if got, err := PerftestFigure(out, "65536", 3); err != nil || got != 0.086 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := PerftestFigure(out, "4096", 3); err == nil {
		t.Errorf("another size: %v", got)
	}
}
