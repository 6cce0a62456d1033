// SPDX-License-Identifier: Apache-2.0

package device

import (
	"runtime"
	"time"
)

// Whoever waits for the socket of a process is visited by the kernel with each message that the server sends or
// receives there, in the thread of the server. A process can wait in tens of thousands of epoll entries, so that a
// message takes milliseconds of CPU time. What a message takes beyond a usual one counts as calls of the process
// (pace.go), and so the server gets slower for this process only.

// callTime is the CPU time that a call counts for (limits.Calls).
const callTime = 20 * time.Microsecond

// metered makes a system call on the socket of the process, and counts its CPU time if it took long.
func (c *session) metered(call func()) {
	if c.account == nil { // it is refused with this message
		call()
		return
	}
	runtime.LockOSThread() // whose time is measured
	began := threadTime()
	call()
	took := threadTime() - began
	runtime.UnlockOSThread()
	if took >= longSignal {
		c.spend(uint64(took / callTime))
	}
}
