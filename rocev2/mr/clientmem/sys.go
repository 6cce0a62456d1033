// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file has all of the package's unsafe code: two system calls that package unix lacks, and
// memory by its address.

func madvise(addr, n uint64, advice int) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(addr), uintptr(n), uintptr(advice))
	return errno
}

// touch accesses a word of each page from first to last, which stays as it is. It reports
// whether all pages are there. The process may access them: in a program with the race detector
// a write to read-only memory would end it.
func touch(first, last, page uint64, write bool) (ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			if _, fault := r.(interface {
				runtime.Error
				Addr() uintptr
			}); !fault {
				panic(r)
			}
		}
	}()
	for at := uintptr(first); ; at += uintptr(page) {
		word := *(**uint32)(unsafe.Pointer(&at))
		if write {
			atomic.AddUint32(word, 0)
		} else {
			atomic.LoadUint32(word)
		}
		if at == uintptr(last) {
			return true
		}
	}
}

// procmapQuery is struct procmap_query of linux/fs.h.
type procmapQuery struct {
	size, flags, addr                      uint64
	start, end, vmaFlags, pageSize, offset uint64
	inode                                  uint64
	major, minor, nameSize, buildIDSize    uint32
	nameAddr, buildIDAddr                  uint64
}

const (
	procmapQueryIoctl     = 0xC0686611 // PROCMAP_QUERY
	procmapCoveringOrNext = 0x10

	procmapReadable = 1
	procmapWritable = 2
)

// query asks for the mapping at addr or the next one after it. ENOENT: there is none.
func (q *procmapQuery) query(fd int, addr uint64) unix.Errno {
	*q = procmapQuery{size: uint64(unsafe.Sizeof(*q)), flags: procmapCoveringOrNext, addr: addr}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), procmapQueryIoctl, uintptr(unsafe.Pointer(q)))
	return errno
}
