// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// ErrNotPresent: pages of the memory are not there yet.
var ErrNotPresent = errors.New("pages are not there yet")

const writeRights = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic

// Check checks that n bytes at addr of the process can be accessed with these rights. The
// error says what is in the way, and wraps verbs.ErrRange, verbs.ErrAccess, ErrNotPresent,
// ErrUnmapped or ErrEnded.
//
// It takes about 4 ms for each GB (BenchmarkCheck), and two system calls for each mapping. A
// server checks its limit of bytes before, and calls Check in a goroutine that no other process
// needs: it may wait for the process.
func (p *Process) Check(addr, n uint64, access verbs.Access) error {
	write := access&writeRights != 0
	if n == 0 || addr >= pageSize || n > pageSize-addr {
		return fmt.Errorf("procmem: %w: %d bytes at %#x; a region has 1 byte or more, at addresses of a process", verbs.ErrRange, n, addr)
	}
	end := addr + n
	var found []mapping // checked after the walk: reading memory may take time
	next := addr
	var bad error
	err := p.mappings(addr, end, func(m mapping) bool {
		p.steps.Add(1)
		if m.start > next {
			return false
		}
		if bad = m.allows(write); bad != nil {
			return false
		}
		found = append(found, m)
		next = m.end
		return next < end
	})
	switch {
	case err != nil:
		return err
	case bad != nil:
		return bad
	case next < end:
		return fmt.Errorf("procmem: %w: nothing is mapped at %#x, in %d bytes at %#x; register mapped memory", verbs.ErrRange, next, n, addr)
	}
	if err := p.checkPages(addr, end, write); err != nil {
		return err
	}
	for _, m := range found {
		var b [1]byte
		at := max(m.start, addr)
		if err := p.ReadAt(b[:], at); err != nil {
			return fmt.Errorf("procmem: %w: memory at %#x (memfd_secret, or of a device); register ordinary memory", err, at)
		}
	}
	return nil
}

// allows checks the rights that the process itself has.
func (m *mapping) allows(write bool) error {
	switch {
	case !m.read:
		return fmt.Errorf("procmem: %w: the process cannot read its memory at %#x to %#x; make it readable (mprotect) or register other memory", verbs.ErrAccess, m.start, m.end)
	case write && !m.write:
		return fmt.Errorf("procmem: %w: the memory at %#x to %#x is read-only; register it without local write, or writable memory", verbs.ErrAccess, m.start, m.end)
	}
	return nil
}

// Bits of an entry of pagemap (linux/Documentation/admin-guide/mm/pagemap.rst).
const (
	pagePresent   = 1 << 63
	pageSwapped   = 1 << 62
	pageUffdWrite = 1 << 57 // write-protected by userfaultfd
)

// checkPages checks that all pages are there or in swap, so that no userfaultfd handler has
// to provide them, and that none waits for one when written.
func (p *Process) checkPages(addr, end uint64, write bool) error {
	page := uint64(os.Getpagesize())
	buf := make([]byte, 32<<10)
	for at := addr &^ (page - 1); at < end; {
		pages := min((end-at+page-1)/page, uint64(len(buf)/8))
		n, err := unix.Pread(p.pagemap, buf[:8*pages], int64(at/page*8))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("procmem: page table of the process: %w", err)
		case n < 8:
			return ErrEnded
		}
		for i := 0; i+8 <= n; i += 8 {
			e := binary.NativeEndian.Uint64(buf[i:])
			if e&(pagePresent|pageSwapped) == 0 {
				return fmt.Errorf("procmem: %w: page %#x; populate the memory before registration (clientmem.Populate, MADV_POPULATE_WRITE); beyond the end of a file, and in memory of a device, there are none", ErrNotPresent, at)
			}
			if write && e&pageUffdWrite != 0 {
				return fmt.Errorf("procmem: %w: page %#x is write-protected by userfaultfd; lift that or register without local write", verbs.ErrAccess, at)
			}
			at += page
		}
	}
	return nil
}
