// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// dialer are two processes that connect with each other, next to hostile ones.
type dialer struct {
	active verbs.Device
	l      *rdma.Listener
}

func newDialer(t *testing.T, dir string) *dialer {
	t.Helper()
	l, err := rdma.Listen(t.Context(), open(t, dir), "127.0.0.1:9999")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept(context.Background())
			if err != nil {
				return // the device was closed
			}
			go func() {
				defer c.Close()
				if m, err := c.RecvMessage(context.Background()); err == nil {
					_ = c.Send(context.Background(), m.Bytes())
					_, _ = c.RecvMessage(context.Background()) // the end
				}
			}()
		}
	}()
	return &dialer{open(t, dir), l}
}

// works connects, exchanges a message and disconnects.
func (d *dialer) works(t *testing.T) {
	t.Helper()
	ctx := testkit.Context(t)
	c, err := rdma.Dial(ctx, d.active, d.l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 16)
	if err := c.Send(ctx, []byte("hello")); err != nil {
		t.Error(err)
	} else if n, err := c.Recv(ctx, p); err != nil || string(p[:n]) != "hello" {
		t.Errorf("%q, %v", p[:n], err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// stalled is a process with a session that does not read.
func stalled(t *testing.T, dir string) *victim {
	v := dial(t, dir).hello().queuePair()
	if _, err := v.call(proto.TCMOpen, nil, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := v.call(proto.TCMListen, &proto.CMListen{Service: uint64(service(1)), Backlog: 1024}, nil); err != nil {
		t.Fatal(err)
	}
	return v
}

// flood writes a message until the server ends the connection. It does not read.
func (v *victim) flood(b func() []byte) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = v.conn.SetDeadline(time.Time{})
		for proto.Write(v.conn, b()) == nil {
		}
	}()
	return ended
}

// hungUp reports whether the server has ended the connection. It reads nothing.
func (v *victim) hungUp() bool {
	raw, err := v.conn.SyscallConn()
	if err != nil {
		v.t.Fatal(err)
	}
	p := []unix.PollFd{{}}
	if err := raw.Control(func(fd uintptr) { p[0].Fd = int32(fd); _, err = unix.Poll(p, 0) }); err != nil {
		v.t.Fatal(err)
	}
	return p[0].Revents&unix.POLLHUP != 0
}

// stalls are what a process does that has a listener at service 1 and does not read. They return a
// channel that is closed when it can write no more, or nil if it does not write.
func stalls(t *testing.T) map[string]func(t *testing.T, m *manager, v *victim) <-chan struct{} {
	connect := func(v *victim) []byte { // to itself: replies and events
		m, err := proto.CMConnectOf(cm.ConnectParams{
			Service: service(1), Local: here, Peer: here, Type: verbs.RC, QPN: v.qp.QPN, Attr: verbs.DefaultAttr(),
		})
		if err != nil {
			t.Error(err)
		}
		return proto.Append(nil, proto.Header{Type: proto.TCMConnect, Seq: 1}, m)
	}
	return map[string]func(t *testing.T, m *manager, v *victim) <-chan struct{}{
		"replies": func(_ *testing.T, _ *manager, v *victim) <-chan struct{} {
			call := proto.Append(nil, proto.Header{Type: proto.TCMDisconnect, Seq: 1}, &proto.CMCall{ID: 5})
			return v.flood(func() []byte { return call })
		},
		"replies and events": func(_ *testing.T, _ *manager, v *victim) <-chan struct{} {
			call := connect(v)
			return v.flood(func() []byte { return call })
		},
		"events of a process that writes nothing": func(t *testing.T, m *manager, v *victim) <-chan struct{} {
			for range 600 { // more events than its socket has room for
				if _, err := m.connectTo(service(1)); err != nil {
					t.Fatal(err)
				}
			}
			return nil
		},
		"random calls and events": func(_ *testing.T, _ *manager, v *victim) <-chan struct{} {
			i, calls := 0, [][]byte{
				connect(v), proto.Append(nil, proto.Header{Type: proto.TPort, Seq: 2}, nil),
				proto.Append(nil, proto.Header{Type: proto.TModifyQP, Seq: 3}, &proto.ModifyQP{Mask: uint32(verbs.MaskAV)}), // a goroutine
				proto.Append(nil, proto.Header{Type: proto.TCMOpen, Seq: 4}, nil),
				proto.Append(nil, proto.Header{Type: 9999, Seq: 5}, nil),
			}
			return v.flood(func() []byte { i++; return calls[i%len(calls)] })
		},
	}
}

// A process that does not read its replies, its events or both, whatever it writes, loses its
// connection, and what it had is free again. Others connect all the time, also while it is there.
func TestProcessThatDoesNotRead(t *testing.T) {
	for name, attack := range stalls(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir := serve(t, device.Config{})
			others, data := newDialer(t, dir), newBystander(t, dir)
			m := manage(t, dir)
			processes := len(s.Status().Processes)
			v := stalled(t, dir)
			ended := attack(t, m, v)
			testkit.Eventually(t, "the process loses its connection", func() bool {
				others.works(t)
				data.works(t)
				time.Sleep(10 * time.Millisecond) // each leaves a queue pair for two seconds
				return v.hungUp()
			})
			if ended != nil {
				<-ended
			}
			testkit.Eventually(t, "the processes have ended", func() bool { return len(s.Status().Processes) == processes })
			next := manage(t, dir)
			if err := next.Listen(service(1), 0); err != nil {
				t.Errorf("its listener: %v", err)
			}
			others.works(t)
		})
	}
}
