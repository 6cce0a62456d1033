// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper is a place where one thread at a time sleeps until packets arrive,
// somebody wakes it, or time is over.
type sleeper struct {
	asleep atomic.Bool
	bell   int        // eventfd, -1 after close
	bellMu sync.Mutex // the number is another file's as soon as the device is closed
	poll   []unix.PollFd
	heard  [8]byte // here, so that sleep does not allocate
}

// init makes the sleeper; fds are the sockets whose packets wake it.
func (s *sleeper) init(fds ...int) (err error) {
	if s.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		s.bell = -1
		return fmt.Errorf("nic: eventfd: %w", err)
	}
	s.poll = append(s.poll, unix.PollFd{Fd: int32(s.bell), Events: unix.POLLIN})
	for _, fd := range fds {
		s.poll = append(s.poll, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	return nil
}

func (s *sleeper) close() {
	s.bellMu.Lock()
	defer s.bellMu.Unlock()
	if len(s.poll) > 0 && s.bell >= 0 {
		unix.Close(s.bell)
		s.bell = -1
	}
}

// sleep sleeps for d at most, deaf: whatever arrives. It does not sleep at all unless
// still says so: whoever found us awake and did not wake us has left its work before.
func (s *sleeper) sleep(d time.Duration, deaf bool, still func() bool) {
	s.asleep.Store(true)
	if still() {
		ts := unix.NsecToTimespec(int64(d))
		fds := s.poll
		if deaf {
			fds = fds[:1]
		}
		n, err := unix.Ppoll(fds, &ts, nil)
		if err == nil && n > 0 && s.poll[0].Revents != 0 {
			_, _ = unix.Read(s.bell, s.heard[:])
		}
	}
	s.asleep.Store(false)
}

// wake ends the sleep, if there is one.
func (s *sleeper) wake() {
	if s.asleep.Load() && s.asleep.CompareAndSwap(true, false) {
		s.bellMu.Lock()
		defer s.bellMu.Unlock()
		if s.bell >= 0 {
			ring(s.bell)
		}
	}
}
