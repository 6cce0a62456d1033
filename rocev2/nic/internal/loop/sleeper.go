// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper is a place where one thread at a time sleeps until packets arrive,
// somebody wakes it, or time is over.
type sleeper struct {
	asleep   atomic.Bool
	eventfd  int        // -1 after close
	mu       sync.Mutex // the number is another file's as soon as eventfd is closed
	poll     []unix.PollFd
	drainBuf [8]byte // buffer of sleep, so that it does not allocate
}

// init makes the sleeper; fds are the sockets whose packets wake it.
func (s *sleeper) init(fds ...int) (err error) {
	if s.eventfd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		s.eventfd = -1
		return fmt.Errorf("nic: eventfd: %w", err)
	}
	s.poll = append(s.poll, unix.PollFd{Fd: int32(s.eventfd), Events: unix.POLLIN})
	for _, fd := range fds {
		s.poll = append(s.poll, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	return nil
}

func (s *sleeper) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.poll) > 0 && s.eventfd >= 0 {
		unix.Close(s.eventfd)
		s.eventfd = -1
	}
}

// sleep sleeps for d at most; maskRX: packets do not wake it. It does not sleep at all unless
// still returns true: a producer that found the sleeper awake has stored its work before.
func (s *sleeper) sleep(d time.Duration, maskRX bool, still func() bool) {
	s.asleep.Store(true)
	if still() {
		ts := unix.NsecToTimespec(int64(d))
		fds := s.poll
		if maskRX {
			fds = fds[:1]
		}
		n, err := unix.Ppoll(fds, &ts, nil)
		if err == nil && n > 0 && s.poll[0].Revents != 0 {
			_, _ = unix.Read(s.eventfd, s.drainBuf[:])
		}
	}
	s.asleep.Store(false)
}

// wake ends the sleep, if there is one.
func (s *sleeper) wake() {
	if s.asleep.Load() && s.asleep.CompareAndSwap(true, false) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.eventfd >= 0 {
			Signal(s.eventfd)
		}
	}
}

// signal is what is written to an eventfd, which adds it to its counter.
var signal = binary.NativeEndian.AppendUint64(nil, 1)

// Signal adds 1 to an eventfd.
func Signal(eventfd int) {
	_, _ = unix.Write(eventfd, signal) // fails only at 2^64-2 signals that nobody has read
}
