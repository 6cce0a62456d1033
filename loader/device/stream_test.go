// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"net"
	"strings"
	"testing"

	"golang.org/x/net/nettest"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/stream"
)

// Streams between two clients of a server are what Go expects of a net.Conn.
func TestStreams(t *testing.T) {
	_, dir := serve(t, device.Config{})
	a, b := open(t, dir), open(t, dir)
	ctx := testkit.Context(t)
	l, err := stream.Listen(ctx, b, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		type accepted struct {
			c   net.Conn
			err error
		}
		got := make(chan accepted, 1)
		go func() {
			c, err := l.Accept()
			got <- accepted{c, err}
		}()
		if c1, err = stream.Dial(ctx, a, l.Addr().String()); err != nil {
			return nil, nil, nil, err
		}
		x := <-got
		return c1, x.c, func() { _, _ = c1.Close(), x.c.Close() }, x.err
	})
}

// A program that closes its device while a connection is in use gets errors, and its memory stays.
func TestDeviceClosesFirst(t *testing.T) {
	_, dir := serve(t, device.Config{})
	a, b := open(t, dir), open(t, dir)
	ctx := testkit.Context(t)
	l, err := rdma.Listen(ctx, b, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err == nil {
			for buf := make([]byte, 100); err == nil; {
				_, err = c.Recv(ctx, buf)
			}
		}
		served <- err
	}()
	c, err := rdma.Dial(ctx, a, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	mem, err := a.Alloc(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(ctx, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	mem[0], mem[len(mem)-1] = 1, 1 // a fault if it was unmapped
	if err := c.Send(ctx, []byte(strings.Repeat("x", 1000))); err == nil || ctx.Err() != nil {
		t.Errorf("send: %v", err)
	}
	if _, err := c.Recv(ctx, make([]byte, 10)); err == nil || ctx.Err() != nil {
		t.Errorf("receive: %v", err)
	}
	_ = c.Close()
	if _, err := rdma.Dial(ctx, a, l.Addr().String()); err == nil || ctx.Err() != nil {
		t.Errorf("dial: %v", err)
	}
	if _, err := a.Port(); err == nil {
		t.Error("the port of a device that is closed")
	}
	if _, err := a.Alloc(10); err == nil {
		t.Error("memory of a device that is closed")
	}
	if err := a.Free(mem); err != nil {
		t.Error(err)
	}
	if err := <-served; err == nil || ctx.Err() != nil {
		t.Errorf("the peer got %v", err)
	}
}
