// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// clock reads CLOCK_MONOTONIC, which the data plane paces by, without a system
// call: the runtime's monotonic time is the same clock, counted from elsewhere.
type clock struct {
	start time.Time
	base  int64 // CLOCK_MONOTONIC at start
}

func newClock() clock {
	// The two are read one after the other; the closest of some readings counts.
	best, c := time.Duration(1<<62), clock{}
	for range 8 {
		var ts unix.Timespec
		before := time.Now()
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
		if took := time.Since(before); took < best {
			best, c = took, clock{before, ts.Nano() - int64(took/2)}
		}
	}
	return c
}

func (c *clock) now() qp.Time { return qp.Time(c.base + int64(time.Since(c.start))) }
