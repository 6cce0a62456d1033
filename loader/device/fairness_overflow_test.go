// SPDX-License-Identifier: Apache-2.0

package device

import (
	"encoding/binary"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// overflow has the kernel raise an eventfd to 2^64-1, which no write can: poll returns POLLERR from then on.
func overflow(t *testing.T, eventfd int) {
	t.Helper()
	for n := uint64(1 << 63); n != 0; n /= 2 { // as far as writes can
		_, _ = unix.Write(eventfd, binary.NativeEndian.AppendUint64(nil, n))
	}
	file, err := unix.MemfdCreate("aio", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(file)
	var ring uintptr
	if _, _, err := unix.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&ring)), 0); err != 0 {
		t.Fatalf("io_setup: %v", err)
	}
	buf := make([]byte, 8)
	read := struct { // struct iocb of linux/aio_abi.h, IOCB_CMD_PREAD
		data               uint64
		key, rwFlags       uint32
		opcode, priority   uint16
		file               uint32
		buf, bytes, offset uint64
		_                  uint64
		flags, eventfd     uint32
	}{file: uint32(file), buf: uint64(uintptr(unsafe.Pointer(&buf[0]))), bytes: 8, flags: 1 /* IOCB_FLAG_RESFD */, eventfd: uint32(eventfd)}
	list := &read
	_, _, e := unix.Syscall(unix.SYS_IO_SUBMIT, ring, 1, uintptr(unsafe.Pointer(&list)))
	_, _, _ = unix.Syscall(unix.SYS_IO_DESTROY, ring, 0, 0) // waits for the end of the read
	runtime.KeepAlive(buf)
	if e != 0 {
		t.Fatalf("io_submit: %v", e)
	}
	p := []unix.PollFd{{Fd: int32(eventfd)}}
	if _, err := unix.Poll(p, 0); err != nil || p[0].Revents&unix.POLLERR == 0 {
		t.Fatalf("the eventfd has not overflowed: %#x, %v", p[0].Revents, err)
	}
}

// An eventfd that has overflowed does not keep the engine awake while its process is delayed.
func TestOverflowedWake(t *testing.T) {
	w := newFloodWorld(t)
	c := w.process(1, 1)
	overflow(t, c.wake)
	for range 3 {
		for c.costs.suspendedUntil == 0 {
			c.groups()
			w.iterate(c)
		}
		w.f.readSignals() // one event is possible
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(w.f.epoll), Events: unix.POLLIN}}, 0); n != 0 || err != nil {
			t.Fatalf("the engine cannot sleep while the process is delayed: %d, %v", n, err)
		}
		w.now = c.costs.suspendedUntil
		w.iterate(c)
		if c.costs.suspendedUntil != 0 {
			t.Fatal("the delay does not end")
		}
	}
}
