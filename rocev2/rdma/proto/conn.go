// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultRunDir is where the sockets are.
const DefaultRunDir = "/run/softroce-xdp"

// SocketPath is the socket of the device server of an interface.
func SocketPath(runDir, ifname string) string {
	return filepath.Join(cmp.Or(runDir, DefaultRunDir), strings.NewReplacer("%", "%25", ".", "%2E").Replace(ifname)+".sock")
}

// Served returns the interfaces that have a device server's socket in a directory. A server that was
// killed has left its own.
func Served(runDir string) (names []string) {
	paths, _ := filepath.Glob(filepath.Join(cmp.Or(runDir, DefaultRunDir), "*.sock"))
	for _, p := range paths {
		name := strings.TrimSuffix(filepath.Base(p), ".sock")
		names = append(names, strings.NewReplacer("%2E", ".", "%25", "%").Replace(name))
	}
	return names
}

// dialStep is how often Dial looks whether its context has ended. A process that connects again loses its
// place in the queue.
const dialStep = 500 * time.Millisecond

// Dial connects to the socket of a device server. While the queue of the server is full, which another
// process may cause, it waits for its turn. (package net returns EAGAIN.)
func Dial(ctx context.Context, path string) (*net.UnixConn, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	step := unix.NsecToTimeval(int64(dialStep))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &step); err != nil {
		return nil, os.NewSyscallError("setsockopt", err)
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		err := unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		if err == unix.EAGAIN || err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, &net.OpError{Op: "connect", Net: "unixpacket", Addr: &net.UnixAddr{Name: path, Net: "unixpacket"}, Err: os.NewSyscallError("connect", err)}
		}
		break
	}
	var none unix.Timeval
	if err := errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &none), unix.SetNonblock(fd, true)); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	c, err := net.FileConn(file) // a copy of the descriptor
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

// ErrDescriptors: the kernel has not passed all descriptors of a message.
var ErrDescriptors = fmt.Errorf("%w: a message with more than %d descriptors, or this process may not open more files (RLIMIT_NOFILE)",
	ErrProtocol, maxFDs)

// maxFDs is how many descriptors a message may have.
const maxFDs = 8

// Read reads a message into b and returns its length and its descriptors, which are the caller's.
// At the end of the connection the error is io.EOF. A message that is longer than b is ErrProtocol. If
// descriptors were lost, the error is ErrDescriptors; the message is there without any.
func Read(c *net.UnixConn, b []byte) (n int, fds []int, err error) {
	return ReadWith(c, b, func(receive func()) { receive() })
}

// ReadWith is Read that has each system call be made by call, which may measure it.
func ReadWith(c *net.UnixConn, b []byte, call func(receive func())) (n int, fds []int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, nil, err
	}
	oob := make([]byte, unix.CmsgSpace(4*maxFDs))
	var oobn, flags int
	var failed error
	receive := func(fd uintptr) (done bool) {
		call(func() {
			n, oobn, flags, _, failed = unix.Recvmsg(int(fd), b, oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
		})
		return failed != unix.EAGAIN
	}
	if err := raw.Read(receive); err != nil {
		return 0, nil, err
	}
	if failed != nil {
		return 0, nil, os.NewSyscallError("recvmsg", failed)
	}
	fds = rights(oob[:oobn])
	switch {
	case n == 0 && oobn == 0:
		err = io.EOF
	case flags&unix.MSG_TRUNC != 0:
		err = fmt.Errorf("%w: a message longer than %d bytes", ErrProtocol, len(b))
	case flags&unix.MSG_CTRUNC != 0:
		CloseFDs(fds)
		return n, nil, ErrDescriptors
	}
	if err != nil {
		CloseFDs(fds)
		return 0, nil, err
	}
	return n, fds, nil
}

// rights returns the descriptors of control messages.
func rights(oob []byte) (fds []int) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		got, err := unix.ParseUnixRights(&messages[i])
		if err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

// CloseFDs closes descriptors.
func CloseFDs(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// Write writes a message with descriptors, which stay the caller's.
func Write(c *net.UnixConn, b []byte, fds ...int) error {
	return WriteWith(c, b, func(send func()) { send() }, fds...)
}

// WriteWith is Write that has each system call be made by call, which may measure it.
func WriteWith(c *net.UnixConn, b []byte, call func(send func()), fds ...int) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	n := 0
	var failed error
	send := func(fd uintptr) (done bool) {
		call(func() { n, failed = unix.SendmsgN(int(fd), b, oob, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) })
		return failed != unix.EAGAIN
	}
	if err := raw.Write(send); err != nil {
		return err
	}
	if failed != nil {
		return os.NewSyscallError("sendmsg", failed)
	}
	if n != len(b) {
		return errors.New("a message was sent in part")
	}
	return nil
}
