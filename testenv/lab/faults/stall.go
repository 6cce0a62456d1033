// SPDX-License-Identifier: Apache-2.0

package faults

// This file mounts a FUSE file system that answers no READ: an access to a mapping of its file
// waits until the file system ends. A hostile process can have an RDMA server wait like that.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// MapStalled mounts a file system of one file, which belongs to user, and maps the first n bytes of the
// file for reading. It needs root and a mount namespace that is this process's alone, with which
// the mount ends. The file system ends when all copies of dev, the descriptor that it is served by,
// are closed.
func MapStalled(user, n int) (b []byte, dev int, err error) {
	if dev, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return nil, -1, fmt.Errorf("stalled mapping: open /dev/fuse (modprobe fuse): %w", err)
	}
	if b, err = mapFile(dev, user, n); err != nil {
		unix.Close(dev)
		return nil, -1, fmt.Errorf("stalled mapping: %w", err)
	}
	return b, dev, nil
}

func mapFile(dev, user, n int) ([]byte, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "stalled-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	f.Close()
	options := fmt.Sprintf("fd=%d,rootmode=100644,user_id=%d,group_id=0,allow_other", dev, user)
	if err := unix.Mount("test", f.Name(), "fuse", unix.MS_NODEV|unix.MS_NOSUID, options); err != nil {
		return nil, fmt.Errorf("mount: %w", err)
	}
	go serve(dev)
	fd, err := unix.Open(f.Name(), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	_ = unix.Unmount(f.Name(), unix.MNT_DETACH)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	defer unix.Close(fd) // its end would be a request at the end of the process
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil { // the kernel learns the size
		return nil, fmt.Errorf("stat: %w", err)
	}
	if st.Size == 0 {
		return nil, errors.New("stat: the kernel has not learned the size of the file")
	}
	return unix.Mmap(fd, 0, n, unix.PROT_READ, unix.MAP_SHARED)
}

// Requests of FUSE (linux/fuse.h).
const (
	fuseGetattr = 3
	fuseOpen    = 14
	fuseRead    = 15
	fuseInit    = 26
)

func serve(dev int) {
	buf := make([]byte, 1<<20)
	for {
		n, err := unix.Read(dev, buf)
		if err != nil || n < 40 {
			return
		}
		order := binary.NativeEndian
		reply := make([]byte, 16, 256)
		failed := int32(0)
		switch order.Uint32(buf[4:]) {
		case fuseInit:
			body := make([]byte, 64)
			order.PutUint32(body, 7)
			order.PutUint32(body[4:], 31)
			order.PutUint32(body[20:], 4096) // max_write
			reply = append(reply, body...)
		case fuseGetattr:
			body := make([]byte, 16+88)
			order.PutUint64(body, 3600) // seconds for which this is valid
			order.PutUint64(body[16:], 1)
			order.PutUint64(body[24:], 1<<20)
			order.PutUint32(body[16+60:], unix.S_IFREG|0o644)
			order.PutUint32(body[16+64:], 1)
			reply = append(reply, body...)
		case fuseOpen:
			reply = append(reply, make([]byte, 16)...)
		case fuseRead:
			continue // not answered
		default:
			failed = -int32(unix.ENOSYS)
		}
		order.PutUint32(reply, uint32(len(reply)))
		order.PutUint32(reply[4:], uint32(failed))
		copy(reply[8:16], buf[8:16])
		_, _ = unix.Write(dev, reply)
	}
}
