// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

// fullSocket returns a listener whose queue is full.
func fullSocket(t *testing.T) (l *net.UnixListener, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	raw, err := l.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { err = unix.Listen(int(fd), 1) })
	if err != nil {
		t.Fatal(err)
	}
	for {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		switch err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err {
		case nil:
		case unix.EAGAIN:
			return l, path
		default:
			t.Fatal(err)
		}
	}
}

// dialed is what Dial has returned.
type dialed struct {
	conn *net.UnixConn
	err  error
}

func start(ctx context.Context, path string) <-chan dialed {
	c := make(chan dialed, 1)
	go func() {
		conn, err := Dial(ctx, path)
		c <- dialed{conn, err}
	}()
	return c
}

func result(t *testing.T, c <-chan dialed) dialed {
	t.Helper()
	return testkit.Receive(t, "Dial returns", c)
}

// Dial waits while the queue of the server is full, and connects when there is room. The connection has no
// limit of time then.
func TestDialWaits(t *testing.T) {
	l, path := fullSocket(t)
	c := start(t.Context(), path)
	select {
	case d := <-c:
		t.Fatalf("while the queue is full, Dial returns %+v", d)
	case <-time.After(dialStep + 100*time.Millisecond): // it has connected twice
	}
	go func() {
		for {
			server, err := l.AcceptUnix()
			if err != nil {
				return // the end of the test
			}
			defer server.Close()
		}
	}()
	d := result(t, c)
	if d.err != nil {
		t.Fatal(d.err)
	}
	defer d.conn.Close()
	checkUnlimited(t, d.conn)
}

func checkUnlimited(t *testing.T, c *net.UnixConn) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) {
		v, err := unix.GetsockoptTimeval(int(fd), unix.SOL_SOCKET, unix.SO_SNDTIMEO)
		if err != nil || v.Nano() != 0 {
			t.Errorf("sends end after %v: %v", time.Duration(v.Nano()), err)
		}
	})
}

// The end of its context ends a Dial that waits.
func TestDialEnds(t *testing.T) {
	_, path := fullSocket(t)
	ctx, cancel := context.WithCancel(t.Context())
	c := start(ctx, path)
	time.AfterFunc(10*time.Millisecond, cancel)
	if d := result(t, c); !errors.Is(d.err, context.Canceled) {
		t.Errorf("%+v, want %v", d, context.Canceled)
	}
	if d := result(t, start(t.Context(), path+"-")); !errors.Is(d.err, unix.ENOENT) {
		t.Errorf("without a server: %+v", d)
	}
}
