// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// The deadline is the latest time that the program allows, unless a timer ends before.
func TestDeadline(t *testing.T) {
	e := bench(t)
	e.Begin(1e9)
	const latest = qp.Time(1e9) + qp.Time(time.Second)
	if at := e.Deadline(1e9+500, latest); at != latest {
		t.Errorf("nothing is due, and the deadline is %d", at)
	}
	e.dests.timers.Set(&(&dest{}).timer, 1e9+2e6)
	if at := e.Deadline(1e9+500, latest); at >= 1e9+3e6 {
		t.Errorf("with a timer: %d", at)
	}
}
