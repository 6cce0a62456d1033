// SPDX-License-Identifier: Apache-2.0

package client

import (
	"slices"
	"testing"
)

// Waits poll as long as that finds something, one in 32 at least, and always again once it did.
func TestSpinning(t *testing.T) {
	var s spinning
	polls := func(waits int, found bool) (at []int) {
		for i := range waits {
			if s.worth() {
				at = append(at, i)
				s.note(found)
			}
		}
		return at
	}
	if got := len(polls(10, true)); got != 10 {
		t.Errorf("%d of 10 waits polled that found something each", got)
	}
	want := []int{0, 1, 3, 7, 15, 31, 63, 95, 127}
	if got := polls(128, false); !slices.Equal(got, want) {
		t.Errorf("waits %v polled and found nothing, want %v", got, want)
	}
	if got := polls(32+10, true); !slices.Equal(got, []int{31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41}) {
		t.Errorf("waits %v polled when there was something again", got)
	}
	if got := polls(3, false); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("waits %v polled after that, want the first two", got)
	}
}
