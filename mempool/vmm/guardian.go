// SPDX-License-Identifier: Apache-2.0

package vmm

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The guardian is a third process. When the handler ends, threads of the application wait for
// pages that nobody will bring. The application cannot help itself: if a goroutine of it waits for
// a page when the garbage collector stops the world, no other goroutine runs any more. The guardian
// poisons all missing pages instead, and lets the threads go on.
//
// The handler shows beatPeriod by beatPeriod that its loop runs. A handler without a beat for
// beatsMissed periods is killed, which makes its end certain before the guardian takes over. The
// guardian counts its own waits, not the time: a machine that was suspended misses no beat.

const (
	beatPeriod  = 250 * time.Millisecond
	beatsMissed = 40 // 10 s
)

// guardianSetup is the first message of a handler to its guardian. Descriptors: userfaultfd, the
// life of the map, pidfd of the handler.
type guardianSetup struct {
	Start, Size uint64
}

// serveGuardian returns when the map is closed or the application has ended.
func serveGuardian(socket int) error {
	conn, err := connOf(socket)
	if err != nil {
		return err
	}
	var s guardianSetup
	fds, err := receive(conn, &s, 3)
	if err != nil {
		return err
	}
	u, life, process := uffd(fds[0]), fds[1], fds[2]
	ready, err := json.Marshal(reply{})
	if err != nil {
		return err
	}
	_, _ = conn.Write(ready) // a handler that has ended already is what watch waits for
	f, err := conn.File()    // a blocking descriptor of its own, for poll
	if err != nil {
		return err
	}
	defer f.Close()
	ended, err := watch(int(f.Fd()), process, life)
	if !ended || err != nil {
		return err
	}
	return afterHandler(u, life, s)
}

// watch waits for the end of the handler, and returns false if the map ended first.
func watch(socket, process, life int) (ended bool, err error) {
	poll := []unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}, {Fd: int32(life), Events: unix.POLLIN}, {Fd: int32(socket), Events: unix.POLLIN}}
	missed := 0
	var beats [64]byte
	for {
		n, err := unix.Poll(poll, int(beatPeriod.Milliseconds()))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return false, err
		case poll[1].Revents != 0:
			return false, nil
		case poll[0].Revents != 0:
			return true, nil
		case n == 0:
			if missed++; missed == beatsMissed {
				fmt.Fprintln(os.Stderr, "vmm: the fault handler does not answer; it is killed")
				if err := unix.PidfdSendSignal(process, unix.SIGKILL, nil, 0); err != nil {
					return false, err
				}
			}
		default:
			missed = 0
			if n, _, err := unix.Recvfrom(socket, beats[:], 0); n <= 0 || err != nil { // the handler is ending
				poll = poll[:2]
			}
		}
	}
}

// afterHandler makes the accesses to missing pages fail until the map ends. Faults are left in the
// userfaultfd, where the application's own wake finds them as well.
func afterHandler(u uffd, life int, s guardianSetup) error {
	poisonRange(u, s.Start, s.Size)
	poll := []unix.PollFd{{Fd: int32(life), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(poll, wakePeriodMillis); err != nil && err != unix.EINTR {
			return err
		}
		if poll[0].Revents != 0 {
			return nil
		}
		_ = u.wake(s.Start, s.Size)
	}
}

// wakePeriodMillis is how long a thread can wait that missed the wake after the poison.
const wakePeriodMillis = 20
