// SPDX-License-Identifier: Apache-2.0

package vmm

import (
	"testing"
	"time"
)

// The loop of a handler polls for a bounded time after a fault, and never with one processor or while an access
// waits for a page.
func TestSpin(t *testing.T) {
	start := time.Now()
	for _, c := range []struct {
		name          string
		several, idle bool
		after         time.Duration
		want          bool
	}{
		{"at once", true, true, 0, true},
		{"before the end", true, true, spinTime - 1, true},
		{"at the end", true, true, spinTime, false},
		{"one processor", false, true, 0, false},
		{"an access waits", true, false, 0, false},
	} {
		s := spin{several: c.several}
		if s.polls(start) {
			t.Errorf("%s: it polls before the first fault", c.name)
		}
		s.served(start, true)
		s.served(start, c.idle)
		if got := s.polls(start.Add(c.after)); got != c.want {
			t.Errorf("%s: polls is %v, want %v", c.name, got, c.want)
		}
	}
}
