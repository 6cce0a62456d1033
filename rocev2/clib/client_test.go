// SPDX-License-Identifier: Apache-2.0

package clib

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// client is a program of testdata, which runs with the library and the agents of a directory.
type client struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

// compile compiles a program of testdata in the directory of the library.
func compile(t *testing.T, library, name string) {
	t.Helper()
	args := []string{"-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", filepath.Join(library, name),
		"testdata/" + name + ".c", "-L" + library, "-Wl,--as-needed", "-lrdmacm", "-libverbs"}
	if sanitizer() != "" {
		args = append(args, "-fsanitize="+sanitizer(), "-fno-sanitize-recover=all")
	}
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("compile %s.c: %v\n%s", name, err, out)
	}
}

func startClient(t *testing.T, library, dir, program, name string) *client {
	t.Helper()
	ctx, cancel := context.WithTimeout(testkit.Context(t), hang)
	t.Cleanup(cancel)
	c := &client{cmd: exec.CommandContext(ctx, filepath.Join(library, program), name)}
	c.cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+library, "SOFTROCE_RUN_DIR="+dir)
	c.cmd.Stderr = os.Stderr
	c.in = testkit.Must1(c.cmd.StdinPipe())(t)
	c.lines = bufio.NewScanner(testkit.Must1(c.cmd.StdoutPipe())(t))
	testkit.Must(t, c.cmd.Start())
	return c
}

// expect waits for the next line of stdout.
func (c *client) expect(t *testing.T, want string) {
	t.Helper()
	c.lines.Scan()
	if got := c.lines.Text(); got != want {
		t.Errorf("the program prints %q, want %q", got, want)
	}
}

// What a program sees of agents that send events and refuse requests at moments that those of this project do not choose.
func TestClients(t *testing.T) {
	require.Command(t, "make", "gcc")
	library := t.TempDir()
	makeLibrary(t, library)
	compile(t, library, "client")
	testClients(t, library)
}

// runClient runs the program with the case of a name, between which and an agent body has the order.
func runClient(t *testing.T, library, program, name string, body func(t *testing.T, dir string, start func() *client)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		dir := testkit.SocketDir(t)
		c := (*client)(nil)
		body(t, dir, func() *client {
			c = startClient(t, library, dir, program, name)
			return c
		})
		c.expect(t, "ok")
		if err := c.cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func testClients(t *testing.T, library string) {
	run := func(name string, body func(t *testing.T, dir string, start func() *client)) {
		t.Helper()
		runClient(t, library, "client", name, body)
	}
	run("names", func(t *testing.T, dir string, start func() *client) {
		serve(t, proto.SocketPath(dir, "eth1"), func(proto.Header, *reply) {})
		c := start()
		c.expect(t, "listed")
		serve(t, proto.SocketPath(dir, "eth0"), func(proto.Header, *reply) {})
		fmt.Fprintln(c.in)
	})
	run("port", func(t *testing.T, dir string, start func() *client) {
		var requests atomic.Int32
		serve(t, proto.SocketPath(dir, "eth0"), func(h proto.Header, r *reply) {
			m, ok := r.body.(*proto.PortReply)
			if !ok {
				return
			}
			switch requests.Add(1) {
			case 1:
				r.to.event(uint32(verbs.EventGIDChange), 0)
				return
			case 2:
				r.to.event(uint32(verbs.EventCQError), cqHandle)
				time.Sleep(100 * time.Millisecond) // a program that uses what it had before does so now
			}
			m.GIDs[0] = gid(2)
		})
		start()
	})
	run("refused", func(t *testing.T, dir string, start func() *client) {
		first := once()
		serve(t, proto.SocketPath(dir, "eth0"), func(h proto.Header, r *reply) {
			if h.Type == proto.TDestroyCQ && first() {
				r.to.signal()
				r.err = verbs.ErrBusy
			}
		})
		start()
	})
	for _, name := range []string{"resized", "cancelled"} {
		run(name, func(t *testing.T, dir string, start func() *client) {
			serve(t, proto.SocketPath(dir, "eth0"), func(h proto.Header, r *reply) {
				if h.Type == proto.TResizeCQ {
					r.to.resize(r)
				}
			})
			start()
		})
	}
	run("moved", func(t *testing.T, dir string, start func() *client) {
		serve(t, proto.SocketPath(dir, "eth0"), func(h proto.Header, r *reply) {
			if h.Type == proto.TResizeCQ {
				r.fds = nil
			}
		})
		start()
	})
	run("forgotten", func(t *testing.T, dir string, start func() *client) {
		serve(t, proto.SocketPath(dir, "eth0"), func(h proto.Header, r *reply) {
			if h.Type == proto.TAllocPD {
				r.to.event(uint32(verbs.EventCQError), cqHandle)
				r.to.signal()
			}
		})
		start()
	})
	run("forks", func(t *testing.T, dir string, start func() *client) {
		forked := make(chan struct{})
		serve(t, proto.SocketPath(dir, "eth0"), func(h proto.Header, r *reply) {
			if h.Type == proto.THello {
				<-forked
			}
		})
		release := sync.OnceFunc(func() { close(forked) })
		t.Cleanup(release)
		start().expect(t, "forked")
		release()
	})
	run("interrupted", func(t *testing.T, dir string, start func() *client) {
		path := proto.SocketPath(dir, "eth0")
		l := full(t, path)
		start().expect(t, "interrupted")
		serveOn(t, l, func(proto.Header, *reply) {})
	})
}

// full listens at a path where no connection fits into the queue of the listener.
func full(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	socket := func(flags int) int {
		return testkit.Must1(unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|flags, 0))(t)
	}
	fd := socket(0)
	testkit.Must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	testkit.Must(t, unix.Listen(fd, 0))
	for {
		c := socket(unix.SOCK_NONBLOCK)
		t.Cleanup(func() { unix.Close(c) })
		err := unix.Connect(c, &unix.SockaddrUnix{Name: path})
		if err == unix.EAGAIN {
			break
		}
		testkit.Must(t, err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	return testkit.Must1(net.FileListener(f))(t).(*net.UnixListener)
}
