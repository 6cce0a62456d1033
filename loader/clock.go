// SPDX-License-Identifier: Apache-2.0

package loader

import "golang.org/x/sys/unix"

// Monotonic is the clock of the data plane's pacing and heartbeat, in nanoseconds.
func Monotonic() uint64 { return Clock(unix.CLOCK_MONOTONIC) }

// Clock reads one of the kernel's clocks (CLOCK_...), in nanoseconds.
func Clock(id int32) uint64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(id, &ts)
	return uint64(ts.Nano())
}
