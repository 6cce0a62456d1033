// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// An access also makes no progress while its thread waits for a processor, on a busy machine. That is no fault of the process
// whose memory it is. The kernel tells both apart: of a thread that waits inside a system call it has the call and its arguments
// (/proc/PID/task/TID/syscall), and of all threads how long they had a processor (schedstat).

// threads are those of this process.
type threads struct {
	dir string        // /proc/self/task
	at  time.Time     // The last call of delayed was then.
	ran time.Duration // All threads together had run for so long.
}

// delayed reports whether a thread waits inside an access to a descriptor now, or threads have run for half of the time since the
// last call, if that is not longer ago than two samples: an access may keep a processor busy. Without the files of the kernel it
// returns true.
func (t *threads) delayed(now time.Time, mem int) bool {
	ran, inside, err := t.read(mem)
	more, since := ran-t.ran, now.Sub(t.at)
	t.at, t.ran = now, ran
	return err != nil || inside || since <= 2*GuardInterval*time.Millisecond && more >= since/2
}

// read returns for how long all threads have run, and whether one waits inside an access to mem.
func (t *threads) read(mem int) (ran time.Duration, inside bool, err error) {
	all, err := os.ReadDir(t.dir)
	if err != nil {
		return 0, false, err
	}
	for _, thread := range all {
		dir := filepath.Join(t.dir, thread.Name())
		call, err := os.ReadFile(filepath.Join(dir, "syscall"))
		if err == nil {
			inside = inside || accesses(call, mem)
			call, err = os.ReadFile(filepath.Join(dir, "schedstat"))
		}
		if err != nil {
			if _, gone := os.Stat(dir); errors.Is(gone, unix.ENOENT) {
				continue // the thread has ended
			}
			return 0, false, err
		}
		f := bytes.Fields(call) // ns on a processor, ns waiting for one, number of times
		if len(f) == 0 {
			return 0, false, fmt.Errorf("procmem: schedstat is %q", call)
		}
		ns, err := strconv.ParseInt(string(f[0]), 10, 64)
		if err != nil {
			return 0, false, err
		}
		ran += time.Duration(ns)
	}
	return ran, inside, nil
}

// accesses reports whether a file "syscall" is that of a thread that waits in an access to a descriptor. It is "running", or has
// the number of the call and its arguments.
func accesses(call []byte, mem int) bool {
	f := bytes.Fields(call)
	if len(f) < 2 {
		return false
	}
	n, err := strconv.Atoi(string(f[0]))
	return err == nil && (n == unix.SYS_PREAD64 || n == unix.SYS_PWRITE64) && string(f[1]) == fmt.Sprintf("%#x", mem)
}

// Delays reports whether it is the process that delays accesses that make no progress: otherwise threads of this process wait for a
// processor. One goroutine at a time calls it, for each sample with Progress.Stalled.
func (p *Process) Delays(now time.Time) bool { return p.threads.delayed(now, p.mem) }
