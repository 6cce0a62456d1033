// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/lab/faults"
)

// childEnv has the test binary be an application: it passes its descriptors over file 3, and
// answers lines of its standard input.
const childEnv = "PROCMEM_TEST_CHILD"

// fuseUser is the user that file systems of children belong to.
const fuseUser = 54321

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "application":
		runChild()
	case "other program":
		fmt.Println("other program")
		answer()
	}
}

// procEnv has the process mount a procfs of its own PID namespace first, as a container has it.
const procEnv = "PROCMEM_TEST_PROC"

func runChild() {
	if os.Getenv(procEnv) != "" {
		err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		if err == nil {
			err = unix.Mount("proc", "/proc", "proc", 0, "")
		}
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	files, err := Self()
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(files.FDs()...), nil, 0); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("ok")
	answer()
}

// answer answers lines until the input ends.
func answer() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		name, args, _ := strings.Cut(in.Text(), " ")
		reply, err := childCommands[name](args)
		if err != nil {
			reply = fmt.Sprint("error ", err)
		}
		fmt.Println(reply)
	}
}

var childCommands = map[string]func(string) (string, error){
	// map makes n pages of a kind and returns the address.
	"map": func(args string) (string, error) {
		var kind string
		var n int
		if _, err := fmt.Sscan(args, &kind, &n); err != nil {
			return "", err
		}
		b, err := mapKind(kind, n*os.Getpagesize())
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%#x", uintptr(unsafe.Pointer(&b[0]))), nil
	},
	"populate": func(args string) (string, error) {
		var addr, n uint64
		var write bool
		if _, err := fmt.Sscan(args, &addr, &n, &write); err != nil {
			return "", err
		}
		return "ok", Populate(addr, n, write)
	},
	"read": func(args string) (string, error) {
		b, err := memoryOf(args)
		return hex.EncodeToString(b), err
	},
	"write": func(args string) (string, error) {
		b, err := memoryOf(args)
		if err != nil {
			return "", err
		}
		data, err := hex.DecodeString(args[strings.LastIndex(args, " ")+1:])
		copy(b, data)
		return "ok", err
	},
	"unmap": func(args string) (string, error) {
		b, err := memoryOf(args)
		if err != nil {
			return "", err
		}
		_, _, errno := unix.Syscall(unix.SYS_MUNMAP, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0)
		if errno != 0 {
			return "", errno
		}
		return "ok", nil
	},
	"truncate": func(string) (string, error) { return "ok", mappedFile.Truncate(0) },
	// where returns the address of a mapping of a name: its last page.
	"where": func(name string) (string, error) {
		maps, err := os.ReadFile("/proc/self/maps")
		for line := range strings.Lines(string(maps)) {
			if strings.HasSuffix(strings.TrimSpace(line), " "+name) {
				var from, to uint64
				_, err := fmt.Sscanf(line, "%x-%x", &from, &to)
				return fmt.Sprintf("%#x", to-uint64(os.Getpagesize())), err
			}
		}
		return "", fmt.Errorf("no mapping %s: %v", name, err)
	},
	"exec": func(string) (string, error) {
		return "", syscall.Exec("/proc/self/exe", []string{"child"}, []string{childEnv + "=other program"})
	},
}

func memoryOf(args string) ([]byte, error) {
	var addr uintptr
	var n int
	if _, err := fmt.Sscan(args, &addr, &n); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n), nil
}

var mappedFile *os.File

func mapKind(kind string, n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	page := os.Getpagesize()
	if kind != "fresh" && kind != "missing" {
		for i := 0; i < n; i += page {
			b[i] = 1
		}
	}
	switch kind {
	case "plain", "fresh":
	case "read-only":
		err = unix.Mprotect(b, unix.PROT_READ)
	case "write-only": // on this machine as good as readable, but not by its flags
		err = unix.Mprotect(b, unix.PROT_WRITE)
	case "none":
		err = unix.Mprotect(b, unix.PROT_NONE)
	case "gap":
		_, _, errno := unix.Syscall(unix.SYS_MUNMAP, uintptr(unsafe.Pointer(&b[page])), uintptr(page), 0)
		if errno != 0 {
			err = errno
		}
	case "huge":
		if b, err = unix.Mmap(-1, 0, n+4<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err == nil {
			if err = unix.Madvise(b, unix.MADV_HUGEPAGE); err == nil {
				err = unix.Madvise(b, unix.MADV_POPULATE_WRITE)
			}
		}
	case "file":
		if mappedFile, err = os.CreateTemp("", "procmem"); err == nil {
			_ = os.Remove(mappedFile.Name())
			_ = mappedFile.Truncate(int64(n))
			b, err = unix.Mmap(int(mappedFile.Fd()), 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		}
	case "shared-read-only":
		var f *os.File
		if f, err = os.Open("/proc/self/exe"); err == nil {
			b, err = unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
		}
	case "secret": // memory that the kernel itself has not mapped
		var fd int
		if fd, err = unix.MemfdSecret(0); err == nil {
			_ = unix.Ftruncate(fd, int64(n))
			if b, err = unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
				for i := 0; i < n; i += page {
					b[i] = 1
				}
			}
		}
	case "fuse":
		b, _, err = faults.MapStalled(fuseUser, n)
	case "missing": // no handler reads the descriptor
		_, err = registerUffd(b, uffdMissing, 0)
	case "filled": // missing pages would be faults, but there are none
		_, err = registerUffd(b, uffdMissing, 0)
	case "write-protected":
		err = writeProtect(b)
	case "handled":
		err = handleMissing(b, 0)
	case "handled-in-user-mode":
		err = handleMissing(b, userModeOnly)
	default:
		err = fmt.Errorf("no kind %s", kind)
	}
	return b, err
}

const (
	uffdMissing = 1
	uffdWP      = 2

	userModeOnly = 1 // UFFD_USER_MODE_ONLY
)

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

func registerUffd(b []byte, mode uint64, flags uintptr) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|flags, 0, 0)
	if errno == unix.EPERM { // without privilege
		fd, _, errno = unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|userModeOnly, 0, 0)
	}
	if errno != 0 {
		return -1, fmt.Errorf("userfaultfd: %w", errno)
	}
	api := [3]uint64{0xAA, 0, 0}
	if err := ioctl(int(fd), 0xc018aa3f, unsafe.Pointer(&api)); err != nil {
		return -1, fmt.Errorf("UFFDIO_API: %w", err)
	}
	reg := [4]uint64{uint64(uintptr(unsafe.Pointer(&b[0]))), uint64(len(b)), mode, 0}
	if err := ioctl(int(fd), 0xc020aa00, unsafe.Pointer(&reg)); err != nil {
		return -1, fmt.Errorf("UFFDIO_REGISTER: %w", err)
	}
	return int(fd), nil
}

func writeProtect(b []byte) error {
	fd, err := registerUffd(b, uffdWP, 0)
	if err != nil {
		return err
	}
	arg := [3]uint64{uint64(uintptr(unsafe.Pointer(&b[0]))), uint64(len(b)), 1}
	return ioctl(fd, 0xc018aa06, unsafe.Pointer(&arg))
}

// handleMissing has missing pages of memory filled with 0x5A by a handler.
func handleMissing(b []byte, flags uintptr) error {
	if err := unix.Madvise(b, unix.MADV_DONTNEED); err != nil {
		return err
	}
	fd, err := registerUffd(b, uffdMissing, flags)
	if err != nil {
		return err
	}
	go func() {
		page := make([]byte, 2*os.Getpagesize())
		from := (uintptr(unsafe.Pointer(&page[0])) + uintptr(os.Getpagesize()) - 1) &^ (uintptr(os.Getpagesize()) - 1)
		for i := range page {
			page[i] = 0x5A
		}
		for {
			var msg [32]byte
			if n, err := unix.Read(fd, msg[:]); n != 32 || err != nil {
				return
			}
			addr := *(*uint64)(unsafe.Pointer(&msg[16])) &^ uint64(os.Getpagesize()-1)
			arg := [5]uint64{addr, uint64(from), uint64(os.Getpagesize()), 0, 0}
			_ = ioctl(fd, 0xc028aa03, unsafe.Pointer(&arg))
		}
	}()
	return nil
}
