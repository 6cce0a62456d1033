// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"errors"
	"testing"
	"time"
)

// TestCompareRates has clocks that are right, too fast and too slow, read quickly and slowly.
func TestCompareRates(t *testing.T) {
	start := time.Now()
	for _, tc := range []struct {
		name          string
		passed, taken time.Duration // the machine's clock in a second, and time of each reading
		ok            bool
	}{
		{"right", time.Second, 0, true},
		{"0.9 % fast", 1009 * time.Millisecond, 0, true},
		{"0.9 % slow", 991 * time.Millisecond, 0, true},
		{"1.1 % fast", 1011 * time.Millisecond, 0, false},
		{"1.1 % slow", 989 * time.Millisecond, 0, false},
		{"stopped", 0, 0, false},
		{"right, slow readings", time.Second, 30 * time.Millisecond, true},
		{"maybe right, slow readings", 1039 * time.Millisecond, 30 * time.Millisecond, true},
		{"too fast for slow readings", 1042 * time.Millisecond, 30 * time.Millisecond, false},
		{"too slow for slow readings", 960 * time.Millisecond, 30 * time.Millisecond, false},
	} {
		first := clockReading{before: start, after: start.Add(tc.taken), clock: time.Hour}
		last := clockReading{before: start.Add(time.Second), after: start.Add(time.Second + tc.taken), clock: time.Hour + tc.passed}
		if err := compareRates(first, last); (err == nil) != tc.ok || err != nil && !errors.Is(err, errClockRate) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
