// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// deviceNice is the niceness of an agent that serves a device. The processes that it serves wait for its engine.
// At the same niceness the scheduler lets each process that the engine wakes interrupt the engine.
const deviceNice = -10

// setNiceness sets the niceness of all threads of this process. Threads that begin later inherit it.
//
// The scheduler may group the processes of a session, and compare niceness inside the group only
// (autogroup, sched(7)). So the group gets the niceness too, if this process is all that the session has.
func setNiceness(n int) error {
	// A thread that another one has started before its own niceness was set is in the next list.
	for done, before := map[string]bool{}, -1; len(done) > before; {
		before = len(done)
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range tasks {
			if done[t.Name()] {
				continue
			}
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			if err := unix.Setpriority(unix.PRIO_PROCESS, id, n); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("niceness %d: %w", n, err)
			}
			done[t.Name()] = true
		}
	}
	if session, err := unix.Getsid(0); err != nil || session != os.Getpid() {
		return err
	}
	err := os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(n)), 0)
	if errors.Is(err, os.ErrNotExist) { // a kernel without groups
		return nil
	}
	return err
}
