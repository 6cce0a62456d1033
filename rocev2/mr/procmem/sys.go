// SPDX-License-Identifier: Apache-2.0

package procmem

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file has all of the package's unsafe code: two system calls that package unix lacks.

func madvise(addr, n uint64, advice int) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(addr), uintptr(n), uintptr(advice))
	return errno
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
