// SPDX-License-Identifier: Apache-2.0

package rdma_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
)

func openLoop(t testing.TB, c cmpeer.Config) *cmpeer.LoopDevice {
	t.Helper()
	d, err := cmpeer.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// connect returns both ends of a connection on a device.
func connect(t testing.TB, dev verbs.Device, options ...rdma.Option) (client, server *rdma.Conn) {
	t.Helper()
	ctx := testkit.Context(t)
	l, err := rdma.Listen(ctx, dev, "127.0.0.1:0", options...)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan error, 1)
	go func() {
		var err error
		server, err = l.Accept(ctx)
		accepted <- err
	}()
	if client, err = rdma.Dial(ctx, dev, l.Addr().String(), options...); err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	return client, server
}

func TestSendRecv(t *testing.T) {
	a, b := connect(t, openLoop(t, cmpeer.Config{}))
	defer a.Close()
	defer b.Close()
	ctx := testkit.Context(t)
	for _, n := range []int{0, 1, 200, 300, 4096, a.MaxMessage()} {
		for _, ends := range [][2]*rdma.Conn{{a, b}, {b, a}} {
			want := bytes.Repeat([]byte{byte(n), 7}, n)[:n]
			if err := ends[0].Send(ctx, want); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, a.MaxMessage())
			m, err := ends[1].Recv(ctx, got)
			if err != nil || !bytes.Equal(got[:m], want) {
				t.Fatalf("%d bytes: %d, %v", n, m, err)
			}
		}
	}
	if err := a.Send(ctx, make([]byte, a.MaxMessage()+1)); !errors.Is(err, rdma.ErrTooLong) {
		t.Error(err)
	}
	if a.LocalAddr().String() != b.RemoteAddr().String() || b.LocalAddr().String() != a.RemoteAddr().String() {
		t.Errorf("%v, %v and %v, %v", a.LocalAddr(), a.RemoteAddr(), b.LocalAddr(), b.RemoteAddr())
	}
}

// A message that is longer than the buffer of Recv.
func TestShortBuffer(t *testing.T) {
	a, b := connect(t, openLoop(t, cmpeer.Config{}))
	defer a.Close()
	defer b.Close()
	ctx := testkit.Context(t)
	if err := a.Send(ctx, []byte("abcdef")); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 3)
	if n, err := b.Recv(ctx, p); n != 3 || err != io.ErrShortBuffer || string(p) != "abc" {
		t.Errorf("%d, %v, %q", n, err, p)
	}
}

func TestReadWrite(t *testing.T) {
	a, b := connect(t, openLoop(t, cmpeer.Config{}), rdma.WithMaxMessage(1000), rdma.WithSendDepth(4))
	defer a.Close()
	defer b.Close()
	ctx := testkit.Context(t)
	mem := make([]byte, 50_000)
	region, err := b.Register(mem, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	d, _ := region.Remote().MarshalBinary()
	var remote rdma.Remote
	if err := remote.UnmarshalBinary(d); err != nil || remote != region.Remote() || len(d) != rdma.RemoteLen {
		t.Fatalf("%v, %v", remote, err)
	}
	want := make([]byte, len(mem))
	for i := range want {
		want[i] = byte(i * 7 / 3)
	}
	if err := a.Write(ctx, want, remote); err != nil || !bytes.Equal(mem, want) {
		t.Fatalf("write: %v", err)
	}
	got := make([]byte, 33_333)
	part, err := remote.Slice(11, uint64(len(got)))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Read(ctx, got, part); err != nil || !bytes.Equal(got, want[11:][:len(got)]) {
		t.Fatalf("read: %v", err)
	}
	if err := a.Write(ctx, want, part); err == nil || !strings.Contains(err.Error(), "33333") {
		t.Errorf("a write beyond the end: %v", err)
	}
	// Memory of the application, without a copy.
	own, err := a.Register(make([]byte, 100), verbs.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	c, err := a.Do(ctx, &verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{own.SGE(10, 50)}, RemoteAddr: remote.Addr, RKey: remote.RKey})
	if err != nil || c.Bytes != 50 || !bytes.Equal(own.Bytes()[10:60], want[:50]) {
		t.Errorf("%+v, %v", c, err)
	}
	// A wrong key ends the connection, with the status of the work request.
	remote.RKey++
	err = a.Write(ctx, want, remote)
	var e *rdma.Error
	if !errors.As(err, &e) || e.Status != verbs.StatusRemoteAccess || !errors.Is(err, rdma.ErrFailed) {
		t.Errorf("%v: %+v", err, e)
	}
	if err := a.Send(ctx, nil); !errors.As(err, &e) || e.Status != verbs.StatusRemoteAccess {
		t.Errorf("after the failure: %v", err)
	}
	if _, err := b.Recv(ctx, got); !errors.Is(err, rdma.ErrFailed) {
		t.Errorf("the peer: %v", err)
	}
}

// What arrived before the peer has closed is received, and then io.EOF.
func TestPeerCloses(t *testing.T) {
	a, b := connect(t, openLoop(t, cmpeer.Config{}))
	ctx := testkit.Context(t)
	for i := range 10 {
		if err := a.Send(ctx, []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if s := a.QP().State(); s != verbs.StateErr && s != verbs.StateReset { // RESET: destroyed
		t.Errorf("the queue pair is in %s", s)
	}
	p := make([]byte, 10)
	for i := range 10 {
		if n, err := b.Recv(ctx, p); n != 1 || err != nil || p[0] != byte(i) {
			t.Fatalf("message %d: %d, %v", i, n, err)
		}
	}
	if _, err := b.Recv(ctx, p); err != io.EOF {
		t.Errorf("after the last message: %v", err)
	}
	if err := b.Send(ctx, p); !errors.Is(err, rdma.ErrPeerClosed) {
		t.Errorf("send: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{"send": b.Send(ctx, p), "close": b.Close()} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s after Close: %v", what, err)
		}
	}
	if _, err := b.Recv(ctx, p); !errors.Is(err, net.ErrClosed) {
		t.Errorf("recv after Close: %v", err)
	}
}

// Close and the end of the device wake all that wait; a context wakes its own.
func TestWake(t *testing.T) {
	for name, x := range map[string]struct {
		end  func(dev io.Closer, c *rdma.Conn) error
		want error
	}{
		"close":  {func(_ io.Closer, c *rdma.Conn) error { return c.Close() }, net.ErrClosed},
		"device": {func(dev io.Closer, _ *rdma.Conn) error { return dev.Close() }, verbs.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			dev := openLoop(t, cmpeer.Config{})
			a, b := connect(t, dev, rdma.WithRecvBuffers(1), rdma.WithSendDepth(2))
			defer a.Close()
			defer b.Close()
			short, cancel := context.WithCancel(context.Background())
			results := make(chan error)
			for i := range 8 {
				go func() {
					if i%2 == 0 {
						_, err := a.Recv(context.Background(), nil)
						results <- err
						return
					}
					var err error
					for err == nil { // b has one buffer and receives nothing
						err = a.Send(context.Background(), make([]byte, 300))
					}
					results <- err
				}()
			}
			go func() {
				_, err := a.Recv(short, nil)
				results <- err
			}()
			cancel()
			if err := <-results; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if err := x.end(dev, a); err != nil {
				t.Error(err)
			}
			for range 8 {
				if err := <-results; !errors.Is(err, x.want) {
					t.Errorf("%v, want %v", err, x.want)
				}
			}
		})
	}
}

// A goroutine waits for a message, and no work request is outstanding that the end would flush.
func TestWakeWithoutReceives(t *testing.T) {
	// Without timewait, the end of the completion queue would wake too.
	dev := openLoop(t, cmpeer.Config{CM: cm.Config{Timewait: time.Hour}})
	a, b := connect(t, dev, rdma.WithRecvBuffers(1), rdma.WithKeepAlive(-1))
	defer b.Close()
	ctx := testkit.Context(t)
	if err := b.Send(ctx, []byte("the only buffer")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.RecvMessage(ctx); err != nil { // not released
		t.Fatal(err)
	}
	started, result := make(chan struct{}), make(chan error)
	go func() {
		_, err := a.RecvMessage(&startedContext{Context: context.Background(), started: started})
		result <- err
	}()
	<-started
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-result:
		if !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Fatal("it still waits")
	}
}

// startedContext says when a Wait for a completion has begun: Err is called there only, Done also by
// the goroutine that becomes the one that waits.
type startedContext struct {
	context.Context
	dones   atomic.Int32
	once    sync.Once
	started chan struct{}
}

func (c *startedContext) Err() error {
	c.once.Do(func() { close(c.started) })
	return nil
}

func (c *startedContext) Done() <-chan struct{} {
	if c.dones.Add(1) > 1 {
		_ = c.Err()
	}
	return nil
}

// A peer that closes as soon as it has a message does not make its Send fail.
func TestCloseAfterRecv(t *testing.T) {
	dev := openLoop(t, cmpeer.Config{CM: fast})
	ctx := testkit.Context(t)
	for range 100 {
		a, b := connect(t, dev, rdma.WithRecvBuffers(2))
		done := make(chan error)
		go func() {
			_, err := b.Recv(ctx, make([]byte, 10))
			done <- errors.Join(err, b.Close())
		}()
		if err := errors.Join(a.Send(ctx, []byte("bye")), <-done, a.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
