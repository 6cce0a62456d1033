// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// shared is memory of the server that a process maps too. Its size is sealed, so no access can
// fail.
type shared struct {
	b  []byte
	fd int // descriptor for the process; -1 after close
}

// newShared makes shared memory. readOnly: the process can map it for reading only.
func newShared(name string, size int, readOnly bool) (_ *shared, err error) {
	page := unix.Getpagesize()
	size = (size + page - 1) &^ (page - 1)
	fd, err := unix.MemfdCreate("softroce-"+name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memory for a process: %w", err)
	}
	m := &shared{fd: fd}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, fmt.Errorf("memory for a process: %d bytes: %w", size, err)
	}
	if m.b, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("memory for a process: map %d bytes: %w", size, err)
	}
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if readOnly {
		seals |= unix.F_SEAL_FUTURE_WRITE
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("memory for a process: seal: %w", err)
	}
	return m, nil
}

// close frees the memory of this process.
func (m *shared) close() {
	if m.fd >= 0 {
		unix.Close(m.fd)
		m.fd = -1
	}
	if m.b != nil {
		_ = unix.Munmap(m.b)
		m.b = nil
	}
}

// signalPair makes the socket that wakes a process: the server writes a byte to the first, the
// process reads from the second. It is no eventfd: one whose counter the process has filled, and
// whose O_NONBLOCK it has cleared, would block the server.
func signalPair() (server, process int, err error) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("socket for signals: %w", err)
	}
	return p[0], p[1], nil
}

var oneByte = []byte{1}

// signalProcess wakes a process. A full socket has bytes to wake it already.
func signalProcess(fd int) {
	_, _ = unix.SendmsgN(fd, oneByte, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}
