// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

const everything = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

var processPage = os.Getpagesize()

// pattern returns n bytes that differ from place to place.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// Data goes both ways, at any alignment and across pages, and nothing next to it changes.
func TestReadWrite(t *testing.T) {
	a := startApplication(t)
	addr := a.mapped("plain", 40)
	want := bytes.Repeat(append([]byte{1}, make([]byte, processPage-1)...), 40)
	for _, at := range []struct{ off, n int }{{0, 1}, {1, 8}, {processPage - 3, 7}, {processPage, processPage}, {3 * processPage, 16 * processPage}, {20*processPage + 5, 19*processPage - 6}} {
		data := pattern(at.n)
		copy(want[at.off:], data)
		if err := a.WriteAt(data, addr+uint64(at.off)); err != nil {
			t.Fatal(at, err)
		}
		got := make([]byte, at.n)
		if err := a.ReadAt(got, addr+uint64(at.off)); err != nil || !bytes.Equal(got, data) {
			t.Fatal(at, err)
		}
	}
	if !bytes.Equal(a.sees(addr, 40*processPage), want) {
		t.Error("the process reads something else")
	}
	a.do("write %d 4 01020304", addr+100)
	got := make([]byte, 4)
	if err := a.ReadAt(got, addr+100); err != nil || !bytes.Equal(got, []byte{1, 2, 3, 4}) {
		t.Error(got, err)
	}
	if n := a.Faults(); n != 0 {
		t.Errorf("%d faults", n)
	}
}

// Atomics return what was there, and those of many goroutines and of two openings add up.
func TestAtomics(t *testing.T) {
	a := startApplication(t)
	addr := a.mapped("plain", 1)
	a.do("write %d 8 %016x", addr, 0)
	if old, err := a.CompareSwap(addr, 1, 2); old != 0 || err != nil {
		t.Error(old, err)
	}
	if old, err := a.CompareSwap(addr, 0, 5); old != 0 || err != nil {
		t.Error(old, err)
	}
	if old, err := a.FetchAdd(addr, ^uint64(0)); old != 5 || err != nil {
		t.Error(old, err)
	}
	second := &Process{mem: a.mem}
	var all sync.WaitGroup
	for i := range 4 {
		p := [2]*Process{a.Process, second}[i%2]
		all.Go(func() {
			for range 2000 {
				if _, err := p.FetchAdd(addr, 1); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if got := binary.NativeEndian.Uint64(a.sees(addr, 8)); got != 4+8000 {
		t.Errorf("%d, want %d", got, 4+8000)
	}
}

// table registers memory of the process as a device would.
func table(t testing.TB, a *application, addr, n uint64) (m *mr.Table, pd uint32, r *mr.Region) {
	t.Helper()
	m, err := mr.New(mr.Config{Keys: 256})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := a.Spec(addr, n, everything)
	if err != nil {
		t.Fatal(err)
	}
	spec.PD = m.AllocPD()
	if r, err = m.Register(spec); err != nil {
		t.Fatal(err)
	}
	return m, spec.PD, r
}

// try makes all accesses to a region, of which each must end with the same fault.
func try(t *testing.T, what string, m *mr.Table, pd uint32, r *mr.Region, at uint64, want mem.Fault) {
	t.Helper()
	data := make([]byte, 64)
	_, add := m.FetchAdd(pd, 1, r.RKey(), at, 1)
	_, swap := m.CompareSwap(pd, 1, r.RKey(), at, 1, 2)
	for name, got := range map[string]mem.Fault{
		"remote write": m.WriteRemote(pd, 1, r.RKey(), at, data), "remote read": m.ReadRemote(pd, 1, r.RKey(), at, data),
		"local write": m.WriteLocal(pd, r.LKey(), at, data), "local read": m.ReadLocal(pd, r.LKey(), at, data),
		"fetch and add": add, "compare and swap": swap,
	} {
		if got != want {
			t.Errorf("%s: %s: fault %v, want %v", what, name, got, want)
		}
	}
}

// A region has exactly the bytes that were registered, at the addresses of the process.
func TestProcessRegion(t *testing.T) {
	a := startApplication(t)
	addr := a.mapped("plain", 3)
	m, pd, r := table(t, a, addr+8, uint64(2*processPage))
	try(t, "first", m, pd, r, addr+8, mem.FaultNone)
	try(t, "last", m, pd, r, addr+8+uint64(2*processPage)-64, mem.FaultNone)
	try(t, "before", m, pd, r, addr, mem.FaultRange)
	try(t, "behind", m, pd, r, addr+8+uint64(2*processPage), mem.FaultRange)
	if m.WriteRemote(pd, 1, r.RKey(), addr+uint64(processPage), pattern(64)) != mem.FaultNone || !bytes.Equal(a.sees(addr+uint64(processPage), 64), pattern(64)) {
		t.Error("written elsewhere")
	}
	spec, err := a.Spec(addr+8, 64, everything|verbs.AccessZeroBased)
	if err != nil {
		t.Fatal(err)
	}
	spec.PD = pd
	zero, err := m.Register(spec)
	if err != nil {
		t.Fatal(err)
	}
	if m.WriteRemote(pd, 1, zero.RKey(), 1, []byte{9, 8}) != mem.FaultNone || !bytes.Equal(a.sees(addr+9, 2), []byte{9, 8}) {
		t.Error("zero-based region")
	}
}

// What is unmapped or truncated after registration fails; the rest works, and the region can
// be deregistered.
func TestGoneLater(t *testing.T) {
	a := startApplication(t)
	addr := a.mapped("plain", 2)
	m, pd, r := table(t, a, addr, uint64(2*processPage))
	a.do("unmap %d %d", addr+uint64(processPage), processPage)
	try(t, "unmapped", m, pd, r, addr+uint64(processPage), mem.FaultBackend)
	try(t, "still mapped", m, pd, r, addr, mem.FaultNone)
	if got := m.WriteRemote(pd, 1, r.RKey(), addr+uint64(processPage)-32, make([]byte, 64)); got != mem.FaultBackend {
		t.Errorf("across the end: %v", got)
	}
	if a.Ended() || a.Faults() != 7 {
		t.Errorf("ended %v, %d faults", a.Ended(), a.Faults())
	}
	if err := r.Deregister(); err != nil {
		t.Error(err)
	}
	addr = a.mapped("file", 2)
	a.do("populate %d %d true", addr, 2*processPage)
	m, pd, r = table(t, a, addr, uint64(2*processPage))
	try(t, "file", m, pd, r, addr, mem.FaultNone)
	a.do("truncate")
	try(t, "truncated file", m, pd, r, addr, mem.FaultBackend)
}

// A process that is killed while it is accessed ends the accesses with an error.
func TestKilled(t *testing.T) {
	a := startApplication(t)
	addr := a.mapped("plain", 256)
	m, pd, r := table(t, a, addr, uint64(256*processPage))
	data := make([]byte, 256*processPage)
	began, done := make(chan struct{}), make(chan mem.Fault)
	go func() {
		for i := 0; ; i++ {
			f := m.WriteRemote(pd, 1, r.RKey(), addr, data)
			if i == 3 {
				close(began)
			}
			if f != mem.FaultNone {
				if i < 3 {
					close(began)
				}
				done <- f
				return
			}
		}
	}()
	<-began
	a.kill()
	if f := testkit.Receive(t, "the access ends", done); f != mem.FaultBackend || !a.Process.Ended() {
		t.Errorf("fault %v, ended %v", f, a.Process.Ended())
	}
	try(t, "after the end", m, pd, r, addr, mem.FaultBackend)
	if err := a.Check(addr, 1, 0); !errors.Is(err, ErrEnded) {
		t.Errorf("a registration after the end: %v", err)
	}
	if err := r.Deregister(); err != nil {
		t.Error(err)
	}
}

// The descriptor does not reach a program that the process executes: with the same process ID,
// and memory at the same address.
func TestExec(t *testing.T) {
	a := startApplication(t)
	addr := a.address("where [stack]")
	m, pd, r := table(t, a, addr, 64)
	try(t, "before", m, pd, r, addr, mem.FaultNone)
	if got, _ := a.try("exec"); got != "other program" {
		t.Fatal(got)
	}
	a.do("map plain 1") // it runs
	try(t, "the other program", m, pd, r, addr, mem.FaultBackend)
	if !a.Ended() {
		t.Error("not seen as ended")
	}
	for _, text := range []bool{false, true} {
		a.textOnly = text
		if err := a.Check(addr, 64, 0); !errors.Is(err, ErrEnded) {
			t.Errorf("a registration, text %v: %v", text, err)
		}
	}
}

// Nothing is allocated for an access.
func TestNoAllocations(t *testing.T) {
	a := startApplication(t)
	addr := a.mapped("plain", 2)
	m, pd, r := table(t, a, addr, uint64(processPage))
	buf := make([]byte, 512)
	for what, at := range map[string]uint64{"access": addr, "fault": addr + 1<<40} {
		got := testing.AllocsPerRun(100, func() {
			_ = a.ReadAt(buf, at)
			_ = a.WriteAt(buf, at)
			_, _ = a.FetchAdd(at, 1)
			_, _ = a.CompareSwap(at, 1, 1)
			m.WriteRemote(pd, 1, r.RKey(), addr, buf)
		})
		if got != 0 {
			t.Errorf("%s: %v allocations", what, got)
		}
	}
}

// A process in a container, with other process IDs and a procfs that is not mounted here, is
// like any other.
func TestContainer(t *testing.T) {
	require.Root(t)
	a := startApplicationWith(t, unix.CLONE_NEWNS|unix.CLONE_NEWPID)
	addr := a.mapped("plain", 2)
	m, pd, r := table(t, a, addr, uint64(2*processPage))
	try(t, "container", m, pd, r, addr, mem.FaultNone)
	a.kill()
	try(t, "after its end", m, pd, r, addr, mem.FaultBackend)
}

// A process of another user is reached, because it opened the descriptor itself.
func TestOtherUser(t *testing.T) {
	require.Root(t)
	a := startApplicationWith(t, 0, 65534)
	addr := a.mapped("plain", 2)
	m, pd, r := table(t, a, addr, uint64(2*processPage))
	try(t, "other user", m, pd, r, addr, mem.FaultNone)
}

// A bind mount may give a file of procfs the name of another one. It is refused.
func TestBindMount(t *testing.T) {
	require.Root(t)
	dir := t.TempDir() + "/1"
	name := dir + "/mem"
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(name, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	var fds [3]int
	errs := make(chan error)
	go func() { // in a mount namespace of its own, which ends with the thread
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		for _, step := range []func() error{
			func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
			func() error { return unix.Mount("/proc/self/oom_score_adj", name, "", unix.MS_BIND, "") },
			func() (err error) { fds[0], err = unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0); return err },
			func() (err error) { fds[1], err = unix.Open("/proc/self/maps", unix.O_CLOEXEC, 0); return err },
			func() (err error) { fds[2], err = unix.Open("/proc/self/pagemap", unix.O_CLOEXEC, 0); return err },
		} {
			if err == nil {
				err = step()
			}
		}
		if err == nil {
			_, err = OpenProcess(fds[0], fds[1], fds[2])
		}
		errs <- err
	}()
	if err := <-errs; err == nil || !strings.Contains(err.Error(), "bind mount") {
		t.Errorf("%v, want a refusal of the bind mount", err)
	}
}

// Only the files that are meant are accepted; the others are neither read nor left open.
func TestProcessOpenRefuses(t *testing.T) {
	open := func(name string, flags int) int {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0)
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
	regular := t.TempDir() + "/mem"
	if err := os.WriteFile(regular, pattern(processPage), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, mem := range map[string]int{
		"closed": 1 << 20, "pipe": pipe[0], "regular file": open(regular, unix.O_RDWR), "directory": open("/proc/self", unix.O_RDONLY),
		"read only": open("/proc/self/mem", unix.O_RDONLY), "path": open("/proc/self/mem", unix.O_PATH),
		"other file of procfs": open("/proc/self/oom_score_adj", unix.O_RDWR), "name": open("/proc/self/comm", unix.O_RDWR),
		"maps": open("/proc/self/maps", unix.O_RDONLY),
	} {
		fds := []int{mem, open("/proc/self/maps", unix.O_RDONLY), open("/proc/self/pagemap", unix.O_RDONLY)}
		if p, err := OpenProcess(fds[0], fds[1], fds[2]); err == nil {
			t.Errorf("%s accepted: %v", what, p)
		}
		for _, fd := range fds {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
				t.Errorf("%s: descriptor %d is still open", what, fd)
			}
		}
	}
	for what, fds := range map[string][3]int{
		"path of maps":     {open("/proc/self/mem", unix.O_RDWR), open("/proc/self/maps", unix.O_PATH), open("/proc/self/pagemap", unix.O_RDONLY)},
		"path of pagemap":  {open("/proc/self/mem", unix.O_RDWR), open("/proc/self/maps", unix.O_RDONLY), open("/proc/self/pagemap", unix.O_PATH)},
		"maps for pagemap": {open("/proc/self/mem", unix.O_RDWR), open("/proc/self/maps", unix.O_RDONLY), open("/proc/self/maps", unix.O_RDONLY)},
		"smaps for maps":   {open("/proc/self/mem", unix.O_RDWR), open("/proc/self/smaps", unix.O_RDONLY), open("/proc/self/pagemap", unix.O_RDONLY)},
	} {
		if p, err := OpenProcess(fds[0], fds[1], fds[2]); err == nil {
			t.Errorf("%s accepted: %v", what, p)
		}
	}
	if p, err := OpenProcess(open("/proc/self/mem", unix.O_RDWR), open("/proc/self/maps", unix.O_RDONLY), open("/proc/self/pagemap", unix.O_RDONLY)); err != nil {
		t.Error(err)
	} else if err := p.Close(); err != nil {
		t.Error(err)
	}
}
