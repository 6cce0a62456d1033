// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer/internal/agent"
)

func runAgent() error {
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	problems := setUp(string(cmdline))
	port, err := openPort(10 * time.Second)
	if err != nil {
		return err
	}
	greeting := agent.Hello{Kernel: release(), Uptime: uptime(), Problems: problems}
	s := &agent.Server{Greeting: func() agent.Hello { return greeting }}
	return s.Serve(port)
}

// openPort finds the virtio-serial port by its name and opens it.
func openPort(wait time.Duration) (*os.File, error) {
	for deadline := time.Now().Add(wait); ; time.Sleep(20 * time.Millisecond) {
		names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err == nil && strings.TrimSpace(string(b)) == agent.PortName {
				dev := "/dev/" + filepath.Base(filepath.Dir(name))
				return os.OpenFile(dev, os.O_RDWR|unix.O_NONBLOCK, 0)
			}
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("no virtio-serial port named %s", agent.PortName)
		}
	}
}

func release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err.Error()
	}
	return unix.ByteSliceToString(u.Release[:])
}

func uptime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
