// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var arenaPage = os.Getpagesize()

func create(t testing.TB, n int) *Arena {
	t.Helper()
	a, err := CreateArena(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if a.fd >= 0 {
			_ = a.Close()
		}
	})
	return a
}

// pass returns a descriptor as another process gets it.
func pass(t testing.TB, a *Arena) int {
	t.Helper()
	fd, err := unix.FcntlInt(uintptr(a.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// What one side writes the other reads, also after the first has closed the arena. Nobody can
// change the size.
func TestShared(t *testing.T) {
	a := create(t, 3*arenaPage-5)
	if len(a.Bytes()) != 3*arenaPage {
		t.Fatalf("%d bytes", len(a.Bytes()))
	}
	b, err := OpenArena(pass(t, a), uint64(3*arenaPage))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	buf, err := a.Alloc(100)
	if err != nil {
		t.Fatal(err)
	}
	copy(buf, "from the application")
	offset, ok := a.Offset(buf)
	there, err := b.Slice(offset, 20)
	if !ok || err != nil || string(there) != "from the application" {
		t.Fatalf("%q, %v, %v", there, ok, err)
	}
	copy(there, "from the NIC's side!")
	if string(buf[:20]) != "from the NIC's side!" {
		t.Errorf("%q", buf[:20])
	}
	for _, size := range []int64{0, int64(arenaPage), 1 << 20} {
		if err := unix.Ftruncate(a.FD(), size); !errors.Is(err, unix.EPERM) {
			t.Errorf("truncate to %d: %v", size, err)
		}
	}
	if _, err := unix.FcntlInt(uintptr(a.FD()), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); !errors.Is(err, unix.EPERM) {
		t.Errorf("another seal: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if string(there) != "from the NIC's side!" {
		t.Error("gone with its maker")
	}
}

// A slice lies in the arena.
func TestSlice(t *testing.T) {
	a := create(t, 2*arenaPage)
	end := uint64(2 * arenaPage)
	for _, c := range []struct {
		offset, n uint64
		ok        bool
	}{
		{0, 1, true}, {0, end, true}, {end - 1, 1, true}, {0, 0, false}, {0, end + 1, false}, {end, 1, false}, {end, 0, false},
		{^uint64(0), 2, false}, {2, ^uint64(0), false}, {^uint64(0), ^uint64(0), false},
	} {
		b, err := a.Slice(c.offset, c.n)
		if c.ok != (err == nil) || err != nil && !errors.Is(err, verbs.ErrRange) {
			t.Errorf("%d bytes at %d: %v", c.n, c.offset, err)
		}
		if c.ok && (uint64(len(b)) != c.n || len(b) != cap(b)) {
			t.Errorf("%d bytes at %d: %d, capacity %d", c.n, c.offset, len(b), cap(b))
		}
	}
	for _, n := range []int{0, -1, maxBytes + 1} {
		if _, err := CreateArena(n); !errors.Is(err, verbs.ErrRange) {
			t.Errorf("an arena of %d bytes: %v", n, err)
		}
	}
}

// memfd makes a file that an application could pass.
func memfd(t *testing.T, size int64, flags, seals int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("test", flags|unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(fd, size); err != nil {
		t.Fatal(err)
	}
	if seals != 0 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
	}
	return fd
}

// What is no arena is refused with what to do, in bounded time, and closed.
func TestArenaOpenRefuses(t *testing.T) {
	open := func(name string, flags int) int {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Fatal(name, err)
		}
		return fd
	}
	pipe := make([]int, 2)
	if err := unix.Pipe(pipe); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[1])
	readOnly := create(t, arenaPage)
	const sealing = unix.MFD_ALLOW_SEALING
	for _, c := range []struct {
		what string
		fd   int
		want string
	}{
		{"unsealed", memfd(t, int64(arenaPage), sealing, 0), "add F_SEAL_SHRINK"},
		{"not to be sealed", memfd(t, int64(arenaPage), 0, 0), "add F_SEAL_SHRINK"},
		{"may shrink", memfd(t, int64(arenaPage), sealing, unix.F_SEAL_GROW|unix.F_SEAL_SEAL), "add F_SEAL_SHRINK"},
		{"may grow", memfd(t, int64(arenaPage), sealing, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL), "add F_SEAL_SHRINK"},
		{"more seals", memfd(t, int64(arenaPage), sealing, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW), "add F_SEAL_SHRINK"},
		{"write sealed", memfd(t, int64(arenaPage), sealing, seals|unix.F_SEAL_WRITE), "leave out F_SEAL_WRITE"},
		{"future write sealed", memfd(t, int64(arenaPage), sealing, seals|unix.F_SEAL_FUTURE_WRITE), "leave out F_SEAL_WRITE"},
		{"empty", memfd(t, 0, sealing, seals), "whole pages"},
		{"half a page", memfd(t, int64(arenaPage/2), sealing, seals), "whole pages"},
		{"larger than the limit", memfd(t, 1<<20+int64(arenaPage), sealing, seals), "up to 1048576 bytes"},
		{"huge", memfd(t, 1<<62, sealing, seals), "up to 1048576 bytes"},
		{"huge pages", memfd(t, 2<<20, sealing|unix.MFD_HUGETLB, seals), "without MFD_HUGETLB"},
		{"opened for reading", open("/proc/self/fd/"+strconv.Itoa(readOnly.FD()), unix.O_RDONLY), "for reading and writing"},
		{"pipe", pipe[0], "not a memfd"},
		{"directory", open("/dev/shm", unix.O_RDONLY), "not a memfd"},
		{"file of tmpfs", open("/dev/shm", unix.O_RDWR|unix.O_TMPFILE), "add F_SEAL_SHRINK"},
		{"device", open("/dev/zero", unix.O_RDWR), "not a memfd"},
		{"not open", 1 << 20, "bad file descriptor"},
		{"negative", -1, "bad file descriptor"},
	} {
		a, err := OpenArena(c.fd, 1<<20)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want %q", c.what, a, err, c.want)
		}
		if _, err := unix.FcntlInt(uintptr(c.fd), unix.F_GETFD, 0); err != unix.EBADF {
			t.Errorf("%s: still open", c.what)
		}
	}
}

// A region of an arena works at the addresses of the application, and what the application
// does to its pages fails no access of the NIC.
func TestArenaRegion(t *testing.T) {
	a := create(t, 8*arenaPage)
	b, err := OpenArena(pass(t, a), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	buf, err := a.Alloc(2 * arenaPage)
	if err != nil {
		t.Fatal(err)
	}
	offset, _ := a.Offset(buf)
	host, err := b.Slice(offset, uint64(len(buf)))
	if err != nil {
		t.Fatal(err)
	}
	table, err := mr.New(mr.Config{Keys: 256})
	if err != nil {
		t.Fatal(err)
	}
	pd, va := table.AllocPD(), addressOf(buf)
	const access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	r, err := table.Register(mr.Spec{PD: pd, Host: host, VA: va, Access: access})
	if err != nil {
		t.Fatal(err)
	}
	if f := table.WriteRemote(pd, 1, r.RKey(), va+5, []byte("data")); f != mem.FaultNone || string(buf[5:9]) != "data" {
		t.Errorf("%v, %q", f, buf[5:9])
	}
	const removePages = 3 // FALLOC_FL_KEEP_SIZE and the flag that gives pages back
	if err := unix.Fallocate(a.FD(), removePages, 0, int64(8*arenaPage)); err != nil {
		t.Fatal(err)
	}
	got := []byte("full")
	if f := table.ReadRemote(pd, 1, r.RKey(), va+5, got); f != mem.FaultNone || string(got) != "\x00\x00\x00\x00" {
		t.Errorf("pages that are gone: %v, %q", f, got)
	}
	if old, f := table.FetchAdd(pd, 1, r.RKey(), va, 3); old != 0 || f != mem.FaultNone || buf[0] != 3 {
		t.Errorf("%d, %v, %d", old, f, buf[0])
	}
	if err := r.Deregister(); err != nil {
		t.Error(err)
	}
}
