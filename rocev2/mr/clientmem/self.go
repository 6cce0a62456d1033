// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// Files are the descriptors of this process that Open takes in another one.
type Files struct{ Mem, Maps, Pagemap *os.File }

// Self opens the files of this process. It fails for a process whose memory may not be read
// (prctl PR_SET_DUMPABLE, set-user-ID programs): such a process registers memory of an arena.
func Self() (_ *Files, err error) {
	f := &Files{}
	for _, o := range []struct {
		file **os.File
		name string
		mode int
	}{{&f.Mem, "mem", os.O_RDWR}, {&f.Maps, "maps", os.O_RDONLY}, {&f.Pagemap, "pagemap", os.O_RDONLY}} {
		if *o.file, err = os.OpenFile("/proc/self/"+o.name, o.mode, 0); err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("procmem: %w; a process without this file registers memory of an arena only", err)
		}
	}
	return f, nil
}

// FDs are the descriptors in the order of the arguments of Open.
func (f *Files) FDs() []int { return []int{int(f.Mem.Fd()), int(f.Maps.Fd()), int(f.Pagemap.Fd())} }

// Close closes the files. Descriptors that were passed stay open where they are.
func (f *Files) Close() (err error) {
	for _, o := range []*os.File{f.Mem, f.Maps, f.Pagemap} {
		if o != nil {
			err = errors.Join(err, o.Close())
		}
	}
	return err
}

// Populate makes all pages of n bytes at addr of this process present, as a registration needs
// them. A userfaultfd handler is called for what it must fill. write is for memory that the NIC
// may write; otherwise pages that nothing has written stay shared. The content does not change.
func Populate(addr, n uint64, write bool) error {
	if n == 0 || n > math.MaxInt64 || addr > math.MaxUint64-n {
		return fmt.Errorf("procmem: populate: %d bytes at %#x are no range of addresses", n, addr)
	}
	advice, verb := unix.MADV_POPULATE_READ, "readable"
	if write {
		advice, verb = unix.MADV_POPULATE_WRITE, "writable"
	}
	page := uint64(os.Getpagesize())
	first := addr &^ (page - 1)
	last := (addr + n - 1) &^ (page - 1)
	for {
		errno := madvise(first, last-first+page, advice)
		switch errno {
		case 0:
			return nil
		case unix.EINTR, unix.EAGAIN: // pages so far stay, so it comes to an end
			continue
		case unix.EFAULT:
			// The handler takes faults of user mode only, as one without privilege does.
			if touch(first, last, page, write) {
				return nil
			}
		}
		return fmt.Errorf("procmem: populate: %d bytes at %#x: %w; register memory that is mapped and %s (Linux 5.14)", n, addr, errno, verb)
	}
}
