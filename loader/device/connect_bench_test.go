// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
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

// serverCPU reports the CPU time that the server takes for a call of do. The first 30 000 calls are not paced
// (limits.Saved).
func serverCPU(b *testing.B, server *process, do func() error) {
	before := cpuTime(b, server.cmd.Process.Pid)
	n := 0
	for b.Loop() {
		if err := do(); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(cpuTime(b, server.cmd.Process.Pid)-before)/float64(n)/1e3, "server-µs/op")
}

// benchServer starts a server, and returns a function that opens its device.
func benchServer(b *testing.B) (*process, func() *client.Device) {
	dir := testkit.SocketDir(b)
	p := start(b, "server", dir)
	p.line("serves")
	return p, func() *client.Device {
		d, err := client.Open(b.Context(), "lo", client.Config{RunDir: dir})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { d.Close() })
		return d
	}
}

// What control messages cost the server.
func BenchmarkCalls(b *testing.B) {
	p, open := benchServer(b)
	d := open()
	pd, err := d.AllocPD()
	if err != nil {
		b.Fatal(err)
	}
	cq, err := d.CreateCQ(256)
	if err != nil {
		b.Fatal(err)
	}
	mem, err := d.Alloc(64 << 10)
	if err != nil {
		b.Fatal(err)
	}
	init := verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}
	qp, err := pd.CreateQP(init)
	if err != nil {
		b.Fatal(err)
	}
	for _, x := range []struct {
		name string
		do   func() error
	}{
		{"port", func() error { _, err := d.Port(); return err }},
		{"cq", func() error {
			q, err := d.CreateCQ(256)
			if err != nil {
				return err
			}
			return q.Destroy()
		}},
		{"mr", func() error {
			m, err := pd.RegMR(mem, verbs.AccessLocalWrite)
			if err != nil {
				return err
			}
			return m.Deregister()
		}},
		{"qp", func() error {
			q, err := pd.CreateQP(init)
			if err != nil {
				return err
			}
			return q.Destroy()
		}},
		{"init-reset", func() error {
			if err := verbs.ToInit(qp, verbs.Endpoint{}, verbs.DefaultAttr()); err != nil {
				return err
			}
			return qp.Modify(verbs.Attr{State: verbs.StateReset}, verbs.MaskState)
		}},
		{"pair", func() error {
			q, x, m, err := pd.(*client.PD).CreatePair(256, verbs.QPInit{Type: verbs.RC}, verbs.DefaultAttr(), mem)
			if err != nil {
				return err
			}
			return errors.Join(d.DestroyPair(x, q), m.Deregister())
		}},
	} {
		b.Run(x.name, func(b *testing.B) { serverCPU(b, p, x.do) })
	}
}

// Dial and Close one after the other, each end in a process's device of its own: the CPU time that the server takes
// for a connection, both of its ends.
func BenchmarkConnect(b *testing.B) {
	p, open := benchServer(b)
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
	serverCPU(b, p, func() error {
		c, err := rdma.Dial(b.Context(), active, l.Addr().String())
		if err != nil {
			return err
		}
		return c.Close()
	})
}
