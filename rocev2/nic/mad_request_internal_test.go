// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"testing"
	"time"
)

// Unknown neighbours are looked for at a rate, after a burst.
func TestAskLimit(t *testing.T) {
	var l askLimit
	now := time.Unix(1000, 0)
	take := func() (n int) {
		for l.take(now) {
			n++
		}
		return n
	}
	if n := take(); n != askBurst {
		t.Errorf("%d at once, want %d", n, askBurst)
	}
	now = now.Add(time.Second / 2)
	if n := take(); n != askRate/2 {
		t.Errorf("%d in half a second, want %d", n, askRate/2)
	}
	now = now.Add(time.Hour)
	if n := take(); n != askBurst {
		t.Errorf("%d after an hour, want %d", n, askBurst)
	}
}
