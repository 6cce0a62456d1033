// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the CPU time of this process: what it runs, such as engines of both hosts, and the kernel on its behalf. Unlike
// the clock on the wall it does not count what others do on this machine.
func CPU() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts) // cannot fail with these arguments
	return time.Duration(ts.Nano())
}

// HostsInProcess has Go run at least eight threads at a time: hosts and what drives them are in this process, and threads
// of theirs spend time in system calls.
func HostsInProcess() { runtime.GOMAXPROCS(max(8, runtime.GOMAXPROCS(0))) }

// Profile writes a CPU profile to a file until stop is called. Without a name it does nothing.
func Profile(file string) (stop func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
