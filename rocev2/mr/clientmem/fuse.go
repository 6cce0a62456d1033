// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// FUSEControl is where systemd mounts the control file system of FUSE.
const FUSEControl = "/sys/fs/fuse/connections"

// fuseControlMagic is FUSE_CTL_SUPER_MAGIC of fs/fuse/control.c.
const fuseControlMagic = 0x65735543

// FileSystem is a mounted FUSE file system (Documentation/filesystems/fuse/fuse.rst).
type FileSystem struct {
	Device uint64 // number of the kernel: major<<20 + minor
	User   uint32 // user who has mounted it
	dir    string
}

// FileSystems returns the FUSE file systems of the machine. control is FUSEControl, or where fusectl is mounted.
func FileSystems(control string) (all []FileSystem, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(control, &fs); err != nil || fs.Type != fuseControlMagic {
		return nil, fmt.Errorf("procmem: %s is not the control file system of FUSE; mount -t fusectl fusectl %s", control, control)
	}
	entries, err := os.ReadDir(control)
	for _, d := range entries {
		info, e := d.Info()
		device, number := strconv.ParseUint(d.Name(), 10, 64)
		if e != nil || number != nil { // it has just ended
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			all = append(all, FileSystem{Device: device, User: st.Uid, dir: filepath.Join(control, d.Name())})
		}
	}
	return all, err
}

// Waiting reports whether requests to the file system have no answer yet.
func (f *FileSystem) Waiting() bool {
	b, err := os.ReadFile(filepath.Join(f.dir, "waiting"))
	return err == nil && strings.TrimSpace(string(b)) != "0"
}

// Abort ends the file system: accesses that wait for it end with an error.
func (f *FileSystem) Abort() error {
	err := os.WriteFile(filepath.Join(f.dir, "abort"), []byte("1"), 0)
	if errors.Is(err, os.ErrNotExist) { // it has ended
		return nil
	}
	return err
}

// Maps is what a process has mapped. It is a descriptor of its own: it is of use after Close of the Process.
type Maps struct{ file *os.File }

// Maps returns it. The caller closes it.
func (p *Process) Maps() (Maps, error) {
	fd, err := unix.FcntlInt(uintptr(p.maps), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return Maps{}, fmt.Errorf("procmem: maps of the process: %w", err)
	}
	return Maps{os.NewFile(uintptr(fd), "maps")}, nil
}

// Close closes the descriptor.
func (m Maps) Close() error { return m.file.Close() }

// Devices returns the numbers of the devices whose files the process has mapped, as FileSystem has them. It
// waits for the mmap_lock of the process, which the process may hold for as long as an access waits.
func (m Maps) Devices() (map[uint64]bool, error) {
	p := &Process{maps: int(m.file.Fd())}
	all := map[uint64]bool{}
	err := p.mappingsText(0, 1<<64-1, func(v mapping) bool {
		if v.device != 0 {
			all[v.device] = true
		}
		return true
	})
	return all, err
}
