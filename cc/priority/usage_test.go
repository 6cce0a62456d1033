// SPDX-License-Identifier: Apache-2.0

package priority

import "testing"

// A counter that starts again, as that of an entry that was removed and made again, is no usage: the rate
// measured before stays until the new counter has run for a period.
func TestUsageOfCounterThatStartsAgain(t *testing.T) {
	const begin, bytes = 1000 * usagePeriod, 1_000_000
	var u usage
	u.update(bytes, begin)
	u.update(2*bytes, begin+usagePeriod)
	want := uint64(bytes) * 8e9 / usagePeriod
	if u.bps != want {
		t.Fatalf("%d bit/s, want %d", u.bps, want)
	}
	u.update(0, begin+2*usagePeriod)
	if u.bps != want {
		t.Errorf("%d bit/s after the counter has started again, want %d as before", u.bps, want)
	}
	u.update(bytes/2, begin+3*usagePeriod)
	if u.bps != want/2 {
		t.Errorf("%d bit/s by the new counter, want %d", u.bps, want/2)
	}
}
