// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// checkEvery is how often a waiting socket looks whether its interface still
// exists: the kernel wakes nobody up for that.
const checkEvery = time.Second

// Wait blocks until packets can be received, somebody called Wake, or the timeout
// is over (negative: never). It reports whether there are packets. A Wake that came
// before counts. In copy mode the kernel also transmits what was submitted. ErrGone
// and ErrDown come when nothing did: at the timeout, or within a second.
func (s *Socket) Wait(timeout time.Duration) (bool, error) {
	if s.closed {
		return false, ErrClosed
	}
	if s.rx.available(1) > 0 {
		return true, nil
	}
	deadline := time.Now().Add(timeout)
	for {
		if s.mustDrive() {
			drive(s.fd)
		}
		step := checkEvery
		if timeout >= 0 {
			step = min(step, max(0, time.Until(deadline)))
		}
		s.wait = [2]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}, {Fd: int32(s.wakeFD), Events: unix.POLLIN}}
		errno := ppoll(s.wait[:], step)
		if errno != 0 && errno != unix.EINTR {
			return false, ofDevice(errno)
		}
		woken := errno == 0 && s.wait[1].Revents != 0 && s.clearWake()
		if s.rx.available(1) > 0 {
			return true, nil
		}
		if woken {
			return false, nil
		}
		if err := s.alive(); err != nil {
			return false, err
		}
		if timeout >= 0 && !time.Now().Before(deadline) {
			return false, nil
		}
	}
}

// alive returns ErrGone or ErrDown if the interface is that.
func (s *Socket) alive() error {
	switch errno := drive(s.fd); errno {
	case unix.ENXIO, unix.ENODEV, unix.ENETDOWN:
		return ofDevice(errno)
	}
	return nil
}

// signal is the value that Wake adds to the eventfd.
var signal = binary.NativeEndian.AppendUint64(nil, 1)

// Wake makes a Wait return, the current one or the next. Any goroutine may call it.
func (s *Socket) Wake() {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return
	}
	_, _ = unix.Write(s.wakeFD, signal) // fails only after 2^64-2 signals without a read
}

// clearWake resets the eventfd.
func (s *Socket) clearWake() bool {
	_, err := unix.Read(s.wakeFD, s.drainBuf[:])
	return err == nil
}
