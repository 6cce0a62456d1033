// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// view is the file system of a unit.
type view struct {
	Strict   bool     // ProtectSystem=strict
	ReadOnly []string // ReadOnlyPaths
	Groups   bool     // ProtectControlGroups
	Devices  bool     // PrivateDevices
	Writable []string // ReadWritePaths and the paths of the test
}

func (u Unit) view(writable []string) view {
	v := view{Strict: u.Is("ProtectSystem", "strict"), ReadOnly: u.Words("ReadOnlyPaths"), Groups: u.Yes("ProtectControlGroups"), Devices: u.Yes("PrivateDevices")}
	for _, p := range u.Words("ReadWritePaths") {
		v.Writable = append(v.Writable, strings.TrimPrefix(p, "-"))
	}
	v.Writable = append(v.Writable, writable...)
	return v
}

// mount makes the view in a mount namespace of this thread's own.
func (v *view) mount() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("make / a slave: %w", err)
	}
	writable := make([]int, len(v.Writable)) // before they are read-only
	for i, p := range v.Writable {
		fd, err := unix.OpenTree(unix.AT_FDCWD, p, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if errors.Is(err, unix.ENOENT) {
			fd = -1
		} else if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		writable[i] = fd
	}
	if v.Devices {
		if err := devices(); err != nil {
			return fmt.Errorf("/dev: %w", err)
		}
	}
	if v.Strict {
		if err := errors.Join(readOnly("/", true), readOnly("/dev", false), readOnly("/proc", false), readOnly("/sys", false)); err != nil {
			return err
		}
	}
	for _, p := range v.ReadOnly {
		if err := readOnly(p, true); err != nil {
			return err
		}
	}
	if v.Groups {
		if err := readOnly("/sys/fs/cgroup", true); err != nil {
			return err
		}
	}
	for i, fd := range writable {
		if fd < 0 {
			continue
		}
		if err := unix.MoveMount(fd, "", unix.AT_FDCWD, v.Writable[i], unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("%s: %w", v.Writable[i], err)
		}
		unix.Close(fd)
	}
	return nil
}

// readOnly sets whether a path and the file systems below it are read-only.
func readOnly(path string, on bool) error {
	if err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil && path != "/" {
		return fmt.Errorf("%s: %w", path, err)
	}
	a := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	if on {
		a = unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &a); err != nil {
		return fmt.Errorf("%s: read-only %v: %w", path, on, err)
	}
	return nil
}

// devices puts the devices of PrivateDevices in the place of /dev.
func devices() error {
	dir, err := os.MkdirTemp("", "confine")
	if err != nil {
		return err
	}
	defer os.Remove(dir)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
		return err
	}
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9} {
		if err := unix.Mknod(filepath.Join(dir, name), unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor))); err != nil {
			return err
		}
	}
	return unix.Mount(dir, "/dev", "", unix.MS_MOVE, "")
}
