// SPDX-License-Identifier: Apache-2.0

package xsk

// All unsafe code of the package: views of memory that the kernel maps, and system
// calls that x/sys has no function for or whose functions allocate.

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sharedRing maps one ring of a socket. mem must stay mapped while it is used.
func sharedRing[T any](fd int, pgoff int64, off unix.XDPRingOffset, size uint32) (r shared[T], mem []byte, err error) {
	var entry T
	length := off.Desc + uint64(size)*uint64(unsafe.Sizeof(entry))
	mem, err = unix.Mmap(fd, pgoff, int(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return r, nil, err
	}
	index := func(at uint64) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&mem[at])) }
	r = shared[T]{
		prod: index(off.Producer), cons: index(off.Consumer), flags: index(off.Flags),
		entries: unsafe.Slice((*T)(unsafe.Pointer(&mem[off.Desc])), size),
	}
	return r, mem, nil
}

// registerUMEM gives memory to the kernel, in frames of the given size.
func registerUMEM(fd int, mem []byte, frameSize int) error {
	reg := unix.XDPUmemReg{
		Addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))),
		Len:  uint64(len(mem)),
		Size: uint32(frameSize),
	}
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, unix.XDP_UMEM_REG,
		uintptr(unsafe.Pointer(&reg)), unsafe.Sizeof(reg), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// getsockopt reads an option of SOL_XDP. Kernels may know a shorter T.
func getsockopt[T any](fd, opt int) (v T, err error) {
	size := uint32(unsafe.Sizeof(v))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(opt),
		uintptr(unsafe.Pointer(&v)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return v, errno
	}
	return v, nil
}

// mmapOffsets reads where the indices and entries of the rings are.
func mmapOffsets(fd int) (unix.XDPMmapOffsets, error) {
	off, err := getsockopt[unix.XDPMmapOffsets](fd, unix.XDP_MMAP_OFFSETS)
	if err == nil && off.Cr.Desc == 0 {
		err = fmt.Errorf("the kernel's ring offsets are those of Linux before 5.4: %w", unix.EOPNOTSUPP)
	}
	return off, err
}

// kick makes the kernel look at the tx ring.
func kick(fd int) unix.Errno {
	_, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

// drive makes the kernel look at the fill ring, and poll the driver where busy
// polling is in force.
func drive(fd int) unix.Errno {
	_, _, errno := unix.Syscall6(unix.SYS_RECVFROM, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

// ppoll waits for input on the descriptors; a negative timeout is forever.
func ppoll(fds []unix.PollFd, timeout time.Duration) unix.Errno {
	ts := unix.NsecToTimespec(int64(timeout))
	p := &ts
	if timeout < 0 {
		p = nil
	}
	_, _, errno := unix.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)),
		uintptr(unsafe.Pointer(p)), 0, 0, 0)
	return errno
}
