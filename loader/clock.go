// SPDX-License-Identifier: Apache-2.0

package loader

import "golang.org/x/sys/unix"

// Monotonic returns CLOCK_MONOTONIC, the clock of pacing and heartbeat, in nanoseconds.
func Monotonic() uint64 { return Clock(unix.CLOCK_MONOTONIC) }

// Clock returns a clock of the kernel (CLOCK_...), in nanoseconds.
func Clock(id int32) uint64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(id, &ts)
	return uint64(ts.Nano())
}
