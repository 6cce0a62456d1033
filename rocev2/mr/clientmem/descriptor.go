// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	_ "github.com/softroce/softroce-xdp/internal/platform" // 64-bit Linux only
)

// checkDescriptor checks that a descriptor that another process has passed is of
// /proc/<process ID>/<name>, opened with a mode. It does not read the file.
//
// The file is one of the kernel's procfs, and not one of FUSE, which could block. Its name
// comes from its directory entry and not from a bind mount, which may give any name to any file.
func checkDescriptor(fd int, name string, mode int) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("procmem: descriptor %d: %s; open /proc/self/%s and pass that", fd, fmt.Sprintf(format, args...), name)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return refuse("%v", err)
	}
	if flags&unix.O_PATH != 0 || mode == unix.O_RDWR && flags&unix.O_ACCMODE != unix.O_RDWR || flags&unix.O_ACCMODE == unix.O_WRONLY {
		return refuse("opened with flags %#x, not for %s", flags, map[int]string{unix.O_RDONLY: "reading", unix.O_RDWR: "reading and writing"}[mode])
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return refuse("%v", err)
	}
	if fs.Type != unix.PROC_SUPER_MAGIC {
		return refuse("not a file of procfs")
	}
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE, &st); err != nil {
		return refuse("%v", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return refuse("not a regular file, or a bind mount")
	}
	link, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return refuse("%v", err)
	}
	if rest, gone := strings.CutSuffix(link, " (deleted)"); gone {
		return refuse("process of %s has ended", rest)
	}
	dir, base := path.Split(link)
	if _, err := strconv.ParseUint(path.Base(dir), 10, 32); err != nil || base != name {
		return refuse("it is %s", link)
	}
	return nil
}
