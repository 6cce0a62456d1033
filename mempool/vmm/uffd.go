// SPDX-License-Identifier: Apache-2.0

package vmm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// uffd is a userfaultfd (linux/Documentation/admin-guide/mm/userfaultfd.rst). It is a plain
// number on purpose: an os.File is closed by the garbage collector, and when the last descriptor
// is closed, the kernel lets faults that wait read zeroes.
type uffd int

// Numbers of linux/include/uapi/linux/userfaultfd.h. They are the same on all architectures
// that Go runs on, except MIPS and PowerPC.
const (
	uffdAPIVersion = 0xaa

	uffdioAPI          = 0xc018aa3f
	uffdioRegister     = 0xc020aa00
	uffdioWake         = 0x8010aa02
	uffdioCopy         = 0xc028aa03
	uffdioWriteProtect = 0xc018aa06
	uffdioPoison       = 0xc020aa08
	uffdioNew          = 0x0000aa00 // of /dev/userfaultfd

	registerMissing = 1 << 0
	registerWP      = 1 << 1
	copyWP          = 1 << 1
	writeProtectOn  = 1 << 0

	featureFlagWP       = 1 << 0
	featureMissingShmem = 1 << 5
	featureWPShmem      = 1 << 12 // Linux 5.19
	featurePoison       = 1 << 14 // Linux 6.6
	neededFeatures      = featureFlagWP | featureMissingShmem | featureWPShmem | featurePoison

	eventPageFault = 0x12
	faultWrite     = 1 << 0
	faultWP        = 1 << 1
	messageLen     = 32
)

// openUFFD opens a userfaultfd that sees faults of system calls as well.
func openUFFD() (uffd, error) {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK, 0, 0)
	if errno == 0 {
		return uffd(fd), nil
	}
	if errno != unix.EPERM {
		return -1, errno
	}
	dev, err := unix.Open("/dev/userfaultfd", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, errno
	}
	defer unix.Close(dev)
	fd, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(dev), uffdioNew, unix.O_CLOEXEC|unix.O_NONBLOCK)
	if errno != 0 {
		return -1, errno
	}
	return uffd(fd), nil
}

// enable begins the use of features. It returns those that the kernel has.
func (u uffd) enable(features uint64) (uint64, error) {
	a := struct{ api, features, ioctls uint64 }{uffdAPIVersion, features, 0}
	err := u.ioctl(uffdioAPI, unsafe.Pointer(&a))
	return a.features, err
}

// register has the kernel report faults of missing pages, and writes to protected pages.
func (u uffd) register(start, n uint64) error {
	a := struct{ start, n, mode, ioctls uint64 }{start, n, registerMissing | registerWP, 0}
	return u.ioctl(uffdioRegister, unsafe.Pointer(&a))
}

// copyPage makes data the page at dst, and wakes up the threads that wait for it. It fails with
// EEXIST if there is a page.
func (u uffd) copyPage(dst uint64, data []byte, protected bool) error {
	a := struct {
		dst, src, n, mode uint64
		copied            int64
	}{dst: dst, src: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(data)))), n: PageSize}
	if protected {
		a.mode = copyWP
	}
	for {
		err := u.ioctl(uffdioCopy, unsafe.Pointer(&a))
		runtime.KeepAlive(data)
		if !errors.Is(err, unix.EAGAIN) {
			return err
		}
	}
}

// protect has writes to present pages reported as faults, or ends that and wakes up who waits.
func (u uffd) protect(start, n uint64, on bool) error {
	a := struct{ start, n, mode uint64 }{start, n, 0}
	if on {
		a.mode = writeProtectOn
	}
	for {
		if err := u.ioctl(uffdioWriteProtect, unsafe.Pointer(&a)); !errors.Is(err, unix.EAGAIN) {
			return err
		}
	}
}

// poison makes accesses to missing pages fail with SIGBUS. It returns the bytes that it has
// poisoned before an error; EEXIST is a page that is present, protected or poisoned.
func (u uffd) poison(start, n uint64) (int64, error) {
	a := struct {
		start, n, mode uint64
		updated        int64
	}{start, n, 0, 0}
	err := u.ioctl(uffdioPoison, unsafe.Pointer(&a))
	return max(a.updated, 0), err
}

// wake wakes up the threads that wait for pages of a range: they repeat their access.
func (u uffd) wake(start, n uint64) error {
	a := struct{ start, n uint64 }{start, n}
	return u.ioctl(uffdioWake, unsafe.Pointer(&a))
}

func (u uffd) ioctl(request uintptr, arg unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(u), request, uintptr(arg))
	if errno != 0 {
		return errno
	}
	return nil
}

// pageFault is a message of the kernel.
type pageFault struct {
	address uint64
	write   bool
}

// read returns the faults that wait, without waiting for more. buf has room for messages.
func (u uffd) read(buf []byte, faults []pageFault) ([]pageFault, error) {
	n, err := unix.Read(int(u), buf)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return faults, nil
	case err != nil:
		return faults, fmt.Errorf("userfaultfd: %w", err)
	}
	for ; n >= messageLen; n, buf = n-messageLen, buf[messageLen:] {
		if buf[0] == eventPageFault {
			flags := binary.NativeEndian.Uint64(buf[8:])
			faults = append(faults, pageFault{
				address: binary.NativeEndian.Uint64(buf[16:]),
				write:   flags&(faultWrite|faultWP) != 0,
			})
		}
	}
	return faults, nil
}

// addressOf returns where a mapping starts.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// reserve replaces a mapping by address space without access, which nothing else can use.
func reserve(b []byte) error {
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)),
		unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE|unix.MAP_FIXED)
	return err
}
