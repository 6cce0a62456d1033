// SPDX-License-Identifier: Apache-2.0

package vmm

import (
	"errors"

	"golang.org/x/sys/unix"
)

// uffdMemory is the memory of a map as its handler sees it: a memfd that the application has
// mapped at start, and the userfaultfd of the application. The handler does not map the memfd: an
// access of its own to a missing page would fill the page with zeroes, for the application as
// well. It reads pages with pread, which does not.
type uffdMemory struct {
	u     uffd
	memfd int
	start uint64 // address in the application
	zero  [PageSize]byte
}

func (m *uffdMemory) address(n int64) uint64 { return m.start + uint64(n)*PageSize }

func (m *uffdMemory) install(n int64, data []byte, writable bool) error {
	if data == nil {
		data = m.zero[:]
	}
	err := m.u.copyPage(m.address(n), data, !writable)
	if errors.Is(err, unix.EEXIST) { // not ours: its content is not what the application wrote
		if err = m.drop(n); err == nil {
			err = m.u.copyPage(m.address(n), data, !writable)
		}
	}
	return err
}

func (m *uffdMemory) allow(n int64, writable bool) error {
	if writable {
		return m.u.protect(m.address(n), PageSize, false)
	}
	return m.u.wake(m.address(n), PageSize)
}

func (m *uffdMemory) protect(n int64) error {
	return m.u.protect(m.address(n), PageSize, true)
}

func (m *uffdMemory) snapshot(n int64, data []byte) error {
	got, err := unix.Pread(m.memfd, data, n*PageSize)
	if err == nil && got != PageSize {
		err = unix.EIO
	}
	return err
}

func (m *uffdMemory) drop(n int64) error {
	return unix.Fallocate(m.memfd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, n*PageSize, PageSize)
}

func (m *uffdMemory) poison(n int64) bool {
	poisonRange(m.u, m.address(n), PageSize)
	return true
}

func (m *uffdMemory) hidden() bool { return true }

// poisonRange makes all missing pages of a range fail, and lets all threads go on that wait for a
// page of it. Nothing may drop pages at the same time. It may be called again, by several
// processes.
//
// A dropped page that was protected leaves a mark, which refuses the poison: protection is removed
// first. A thread that was about to wait when its page was poisoned waits in vain until the next
// wake.
func poisonRange(u uffd, start, n uint64) {
	_ = u.protect(start, n, false)
	const chunk = 64 << 20 // one call holds a lock of the application's memory
	for at, end := start, start+n; at < end; {
		done, err := u.poison(at, min(chunk, end-at))
		at += uint64(done)
		switch {
		case errors.Is(err, unix.EEXIST):
			at += PageSize
		case err == nil || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		default: // the application or its mapping has ended
			at = end
		}
	}
	_ = u.wake(start, n)
}
