// SPDX-License-Identifier: Apache-2.0

package vmm_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/mempool/vmm"
)

// collectGarbage has the garbage collector stop the world all the time, until the test ends.
func collectGarbage(t testing.TB) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
				time.Sleep(time.Millisecond)
			}
		}
	})
	t.Cleanup(func() { close(stop); wg.Wait() })
}

// leaveRoom keeps one P free while an access waits in copy, and the garbage collector from stopping
// the world, for tests in which the application itself has to end the access.
func leaveRoom(t *testing.T) {
	procs, percent := runtime.GOMAXPROCS(max(2, runtime.NumCPU())), debug.SetGCPercent(-1)
	t.Cleanup(func() { runtime.GOMAXPROCS(procs); debug.SetGCPercent(percent) })
}

// useMap has goroutines write and read a map that is larger than its local memory, each in its
// own part, and compares the parts with plain slices.
func useMap(t *testing.T, m *vmm.Map, goroutines, rounds int) {
	t.Helper()
	part := len(m.Bytes()) / goroutines
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 4))
			memory, want := m.Bytes()[g*part:][:part], make([]byte, part)
			for range rounds {
				off := rnd.IntN(part - 20000)
				n := rnd.IntN(20000)
				switch rnd.IntN(3) {
				case 0:
					for i := off; i < off+n; i++ {
						want[i] = byte(rnd.Uint32())
					}
					copy(memory[off:], want[off:off+n])
				case 1:
					if !bytes.Equal(memory[off:off+n], want[off:off+n]) {
						t.Errorf("goroutine %d: %d bytes at %d differ", g, n, off)
						return
					}
				case 2:
					for i := off; i < off+n; i += vmm.PageSize { // single bytes
						memory[i]++
						want[i]++
					}
				}
			}
			if sha256.Sum256(memory) != sha256.Sum256(want) {
				t.Errorf("goroutine %d: its memory differs at the end", g)
			}
		})
	}
	wg.Wait()
}

// A map has the content of plain memory, with an eighth of it local, under a garbage collector
// that stops the world all the time.
func TestMapContent(t *testing.T) {
	for _, store := range []string{"", "delay=100us"} {
		m := newMap(t, vmm.Config{Size: 8 << 20, Local: 1 << 20, Deadline: time.Hour}, store)
		collectGarbage(t)
		useMap(t, m, 4, 300)
		s, err := m.Stats()
		if err != nil {
			t.Fatal(err)
		}
		if s.PageOuts < 500 || s.PageIns+s.Prefetched < 500 || s.Resident > 256 || s.Lost > 0 {
			t.Errorf("%+v", s)
		}
	}
}

// The same with one P: while an access waits for a page in copy, no goroutine runs.
func TestMapOneProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	m := newMap(t, vmm.Config{Size: 8 << 20, Local: 1 << 20, Deadline: time.Hour}, "delay=100us")
	collectGarbage(t)
	useMap(t, m, 4, 300)
}

// The memory in use is bounded by Local, as the kernel counts it.
func TestMapLocalMemory(t *testing.T) {
	m := newMap(t, vmm.Config{Size: 64 << 20, Local: 4 << 20, Deadline: time.Hour}, "")
	clear(m.Bytes())
	for i := range m.Bytes() {
		if i%vmm.PageSize == 0 {
			m.Bytes()[i] = byte(i >> 12)
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(m.MemFD(), &st); err != nil {
		t.Fatal(err)
	}
	if used := st.Blocks * 512; used > 4<<20 {
		t.Errorf("%d bytes of memory are in use, of %d allowed", used, 4<<20)
	}
}

// A scan of remote memory waits for few pages, since most are prefetched.
func TestMapPrefetch(t *testing.T) {
	m := newMap(t, vmm.Config{Size: 64 << 20, Local: 16 << 20, Deadline: time.Hour}, "")
	for i := 0; i < len(m.Bytes()); i += vmm.PageSize {
		m.Bytes()[i] = byte(i>>12) | 1
	}
	before, err := m.Stats()
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 40<<20; i += vmm.PageSize {
		if m.Bytes()[i] != byte(i>>12)|1 {
			t.Fatalf("page %d differs", i>>12)
		}
	}
	s, err := m.Stats()
	if err != nil {
		t.Fatal(err)
	}
	const pages = 40 << 8
	if ins, all := s.PageIns-before.PageIns, s.PageIns+s.Prefetched-before.PageIns-before.Prefetched; ins > pages/10 || all > pages*11/10 {
		t.Errorf("%d pages were read for an access, %d altogether, in a scan of %d pages", ins, all, pages)
	}
}

// lose fills a map of 2 MB with ones, of which an eighth is local, and returns a page that is not.
func lose(t *testing.T, m *vmm.Map) (page []byte) {
	t.Helper()
	for i := range m.Bytes() {
		m.Bytes()[i] = 1
	}
	return m.Bytes()[100*vmm.PageSize:][:vmm.PageSize]
}

// wantLost accesses a lost page by copy, a load, a store and a system call. copy is the first: a
// goroutine that waits in it cannot be preempted.
func wantLost(t *testing.T, page []byte, cause error, text string) {
	t.Helper()
	var sink byte
	for _, c := range []struct {
		name   string
		access func()
	}{
		{"copy", func() { copy(make([]byte, 100), page) }},
		{"load", func() { sink = page[5] }},
		{"store", func() { page[5] = 1 }},
	} {
		err := vmm.Try(c.access)
		var p *vmm.PageError
		if !errors.As(err, &p) || p.Offset != 100*vmm.PageSize || cause != nil && !errors.Is(err, cause) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v; want a PageError at %#x with %q", c.name, err, 100*vmm.PageSize, text)
		}
	}
	if sink != 0 {
		t.Errorf("a load of a lost page returned %d", sink)
	}
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := f.Write(page); !errors.Is(err, unix.EFAULT) && !errors.Is(err, unix.EHWPOISON) {
		t.Errorf("write of a lost page: %d, %v", n, err)
	}
}

// A page that the store fails is lost with the error of the store. Other pages are not.
func TestMapStoreError(t *testing.T) {
	m := newMap(t, vmm.Config{Size: 2 << 20, Local: 256 << 10, Deadline: time.Hour}, "fail=100")
	page := lose(t, m)
	wantLost(t, page, nil, errRevoked.Error())
	if m.Bytes()[50*vmm.PageSize] != 1 {
		t.Error("another page is wrong")
	}
	if s, err := m.Stats(); err != nil || s.Lost != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

// A page that does not arrive is lost at the deadline, which is 2 s unless set: it is poisoned then.
func TestMapDeadline(t *testing.T) {
	m := newMap(t, vmm.Config{Size: 2 << 20, Local: 256 << 10}, "silent=100")
	page := lose(t, m)
	start := time.Now()
	wantLost(t, page, vmm.ErrDeadline, "")
	if waited := time.Since(start); waited < 2*time.Second {
		t.Errorf("the access failed after %v", waited)
	}
	if m.Bytes()[50*vmm.PageSize] != 1 {
		t.Error("another page is wrong")
	}
}

// Time in which the handler does not run does not count: pages that arrived meanwhile are there.
func TestMapDeadlineStandsStill(t *testing.T) {
	m := newMap(t, vmm.Config{Size: 2 << 20, Local: 256 << 10, Deadline: 3 * time.Second}, "silent=100 late=1s")
	page := lose(t, m)
	// Another process sends both signals, as in signalLater, and in this order.
	cmd := exec.Command("sh", "-c", fmt.Sprintf("sleep .1; kill -STOP %d; sleep 5; kill -CONT %[1]d", m.HandlerPID()))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // before the handler ends
	if err := vmm.Try(func() { copy(make([]byte, 100), page) }); err != nil {
		t.Error(err)
	}
	if s, err := m.Stats(); err != nil || s.Lost != 0 || s.Deadlines != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// The handler is killed while an access waits for a page, with one P and with a garbage
// collector that waits for the access: the access ends with an error, and local pages stay.
func TestMapHandlerKilled(t *testing.T) {
	for _, procs := range []int{1, runtime.NumCPU()} {
		func() {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			m := newMap(t, vmm.Config{Size: 2 << 20, Local: 256 << 10, Deadline: time.Hour}, "silent=100")
			collectGarbage(t)
			page := lose(t, m)
			last := m.Bytes()[len(m.Bytes())-vmm.PageSize:] // local
			signalLater(t, 500*time.Millisecond, "KILL", m.HandlerPID())
			wantLost(t, page, vmm.ErrHandler, "")
			if last[0] != 1 {
				t.Error("a local page is wrong")
			}
			last[0] = 2
			if err := m.Err(); !errors.Is(err, vmm.ErrHandler) {
				t.Errorf("Err: %v", err)
			}
			if _, err := m.Stats(); !errors.Is(err, vmm.ErrHandler) {
				t.Errorf("Stats: %v", err)
			}
		}()
	}
}

// Many threads read and write when the handler is killed: some wait for pages, others for the
// right to write clean pages. No access sees a value that was not written.
func TestMapHandlerKilledManyFaults(t *testing.T) {
	const threads, pages = 16, 512
	m := newMap(t, vmm.Config{Size: pages * vmm.PageSize, Local: 256 << 10, Deadline: time.Hour}, "delay=200us")
	for i := range m.Bytes() {
		m.Bytes()[i] = 1
	}
	signalLater(t, 200*time.Millisecond, "KILL", m.HandlerPID())
	var wg sync.WaitGroup
	var failed, written atomic.Int64 // after the kill
	for g := range threads {
		wg.Go(func() {
			want := [pages]byte{}
			for round := 0; failed.Load() < 10*threads; round++ {
				for n := g; n < pages; n += threads {
					var v byte
					b := m.Bytes()[n*vmm.PageSize:]
					err := vmm.Try(func() { v = b[0] })
					if err == nil && v != want[n]+1 {
						t.Errorf("page %d has %d, want %d", n, v, want[n]+1)
						return
					}
					if err == nil && round%3 == 0 {
						err = vmm.Try(func() { b[0]++ })
						if err == nil {
							want[n]++
							if m.Err() != nil {
								written.Add(1)
							}
						}
					}
					if err != nil {
						failed.Add(1)
						if !errors.Is(err, vmm.ErrHandler) {
							t.Errorf("page %d: %v", n, err)
							return
						}
					}
				}
			}
		})
	}
	wg.Wait()
	if m.Err() == nil {
		t.Error("the handler was not killed")
	}
	t.Logf("after the kill: %d accesses failed, %d local pages were written", failed.Load(), written.Load())
}

// With handler and guardian killed, the application helps itself.
func TestMapBothKilled(t *testing.T) {
	leaveRoom(t)
	m := newMap(t, vmm.Config{Size: 2 << 20, Local: 256 << 10, Deadline: time.Hour}, "silent=100")
	page := lose(t, m)
	guardian := guardianPID(t, m.HandlerPID())
	// The handler starts a new guardian, unless both end at the same time.
	if err := unix.Kill(m.HandlerPID(), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	signalLater(t, 300*time.Millisecond, "KILL", guardian, m.HandlerPID())
	wantLost(t, page, vmm.ErrHandler, "")
}

// A guardian that is killed is replaced, and the next one does its work.
func TestMapGuardianKilled(t *testing.T) {
	m := newMap(t, vmm.Config{Size: 2 << 20, Local: 256 << 10, Deadline: time.Hour}, "silent=100")
	page := lose(t, m)
	first := guardianPID(t, m.HandlerPID())
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for guardianPID(t, m.HandlerPID()) == first {
		time.Sleep(10 * time.Millisecond)
	}
	if m.Bytes()[50*vmm.PageSize] != 1 {
		t.Error("a page is wrong")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // nobody but the guardian can help
	collectGarbage(t)
	signalLater(t, 300*time.Millisecond, "KILL", m.HandlerPID())
	wantLost(t, page, vmm.ErrHandler, "")
}

// stop stops a process, and returns when none of its threads runs any more: one of the handler may bring a page after the signal
// is sent.
func stop(t *testing.T, pid int) {
	t.Helper()
	testkit.Must(t, unix.Kill(pid, unix.SIGSTOP))
	testkit.Eventually(t, "all threads are stopped", func() bool {
		for _, file := range testkit.Must1(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)))(t) {
			stat, err := os.ReadFile(file)
			if err == nil && !bytes.Contains(stat, []byte(") T ")) {
				return false
			}
		}
		return true
	})
}

// A handler that hangs is killed by the guardian, and one that has nothing to do is not.
func TestMapHandlerHangs(t *testing.T) {
	idle := newMap(t, vmm.Config{Size: 2 << 20, Local: 256 << 10, Deadline: time.Hour}, "")
	m := newMap(t, vmm.Config{Size: 2 << 20, Local: 256 << 10, Deadline: time.Hour}, "")
	page := lose(t, m)
	stop(t, m.HandlerPID())
	wantLost(t, page, vmm.ErrHandler, "")
	idle.Bytes()[0] = 1
	if err := idle.Err(); err != nil {
		t.Errorf("the map that was not used: %v", err)
	}
	if _, err := idle.Stats(); err != nil {
		t.Error(err)
	}
}

// Close ends accesses that wait, and later accesses, with an error.
func TestMapClose(t *testing.T) {
	leaveRoom(t)
	m := newMap(t, vmm.Config{Size: 2 << 20, Local: 256 << 10, Deadline: time.Hour}, "silent=100")
	page := lose(t, m)
	before, err := m.Stats()
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() { result <- vmm.Try(func() { copy(make([]byte, 10), page) }) }()
	for {
		if s, err := m.Stats(); err != nil {
			t.Fatal(err)
		} else if s.Faults > before.Faults {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-result; !errors.Is(err, vmm.ErrClosed) {
		t.Errorf("an access that waited: %v", err)
	}
	if err := vmm.Try(func() { page[0] = 1 }); !errors.Is(err, vmm.ErrClosed) {
		t.Errorf("an access after Close: %v", err)
	}
	if _, err := m.Stats(); !errors.Is(err, vmm.ErrClosed) {
		t.Errorf("Stats after Close: %v", err)
	}
}

// Try leaves other panics as they are.
func TestTryOtherPanics(t *testing.T) {
	for _, f := range []func(){
		func() { panic("other") },
		func() { var p *int; *p = 1 },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is gone")
				}
			}()
			_ = vmm.Try(f)
		}()
	}
	if err := vmm.Try(func() {}); err != nil {
		t.Error(err)
	}
}

// Goroutines that miss the same page cause one READ.
func TestMapSamePage(t *testing.T) {
	m := newMap(t, vmm.Config{Size: 2 << 20, Local: 256 << 10, Deadline: time.Hour}, "delay=5ms")
	page := lose(t, m)
	before, err := m.Stats()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if page[7] != 1 {
				t.Error("the page differs")
			}
		})
	}
	wg.Wait()
	s, err := m.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if n := s.PageIns - before.PageIns; n != 1 {
		t.Errorf("%d READs of one page", n)
	}
}
