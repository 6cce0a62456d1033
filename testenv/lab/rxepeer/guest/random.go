// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reseed adds random bytes of the host to the kernel's pool, as ioctl RNDADDENTROPY has it (random(4)), and
// makes the generator use them at once.
func reseed(entropy []byte) error {
	f, err := os.OpenFile("/dev/urandom", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	// struct rand_pool_info: entropy_count in bits, buf_size in bytes, and the bytes.
	info := make([]byte, 8, 8+len(entropy))
	binary.NativeEndian.PutUint32(info, uint32(8*len(entropy)))
	binary.NativeEndian.PutUint32(info[4:], uint32(len(entropy)))
	info = append(info, entropy...)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.RNDADDENTROPY, uintptr(unsafe.Pointer(&info[0])))
	if errno == 0 {
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.RNDRESEEDCRNG, 0)
	}
	if errno != 0 {
		return os.NewSyscallError("ioctl on /dev/urandom", errno)
	}
	return nil
}
