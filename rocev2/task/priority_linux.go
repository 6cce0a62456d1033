// SPDX-License-Identifier: Apache-2.0

package task

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// lowestPriority gives the calling goroutine a thread of its own, which runs when no thread of
// normal priority wants the CPU (sched(7), SCHED_IDLE). The thread ends with the goroutine.
func lowestPriority() error {
	runtime.LockOSThread()
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0)
}
