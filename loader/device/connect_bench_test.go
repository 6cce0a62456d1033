// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"context"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
)

// cpuTime is the CPU time of a process (clock_getcpuclockid(3)).
func cpuTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// Dial and Close one after the other, each end in a process's device of its own: the CPU time that the server takes
// for a connection, both of its ends. The first 600 or so are not paced (limits.Saved).
func BenchmarkConnect(b *testing.B) {
	dir, err := os.MkdirTemp("", "srd")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	p := start(b, "server", dir)
	p.line("serves")
	open := func() *client.Device {
		d, err := client.Open(b.Context(), "lo", client.Config{RunDir: dir})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { d.Close() })
		return d
	}
	active, passive := open(), open()
	l, err := rdma.Listen(b.Context(), passive, "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			go func() {
				_, _ = c.RecvMessage(context.Background()) // until the peer closes
				c.Close()
			}()
		}
	}()
	before := cpuTime(b, p.cmd.Process.Pid)
	n := 0
	for b.Loop() {
		c, err := rdma.Dial(b.Context(), active, l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		c.Close()
		n++
	}
	b.ReportMetric(float64(cpuTime(b, p.cmd.Process.Pid)-before)/float64(n)/1e3, "server-µs/op")
}
