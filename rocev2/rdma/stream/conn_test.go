// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/nettest"
	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/stream"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
)

func openLoop(t testing.TB) *cmpeer.LoopDevice {
	t.Helper()
	d, err := cmpeer.Open(cmpeer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// connect returns both ends of a stream.
func connect(ctx context.Context, dev verbs.Device, client, server []stream.Option) (a, b *stream.Conn, err error) {
	l, err := stream.Listen(ctx, dev, "127.0.0.1:0", server...)
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			c = nil
		}
		accepted <- c
	}()
	a, err = stream.Dial(ctx, dev, l.Addr().String(), client...)
	if err != nil {
		_ = l.Close()
		<-accepted
		return nil, nil, err
	}
	c := <-accepted
	if c == nil {
		return nil, nil, errors.New("not accepted")
	}
	return a, c.(*stream.Conn), nil
}

func pair(t testing.TB, dev verbs.Device, list ...stream.Option) (a, b *stream.Conn) {
	t.Helper()
	a, b, err := connect(testkit.Context(t), dev, list, list)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a, b
}

func TestNettest(t *testing.T) {
	dev := openLoop(t)
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		ctx, cancel := context.WithCancel(testkit.Context(t))
		defer cancel() // a connection outlives the context of Dial
		a, b, err := connect(ctx, dev, nil, nil)
		if err != nil {
			return nil, nil, nil, err
		}
		return a, b, func() { _, _ = a.Close(), b.Close() }, nil
	})
}

// counter returns a counter of the device.
func counter(t interface{ Fatalf(string, ...any) }, dev *cmpeer.LoopDevice, name string) uint64 {
	for _, c := range dev.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	t.Fatalf("the device has no counter %s", name)
	return 0
}

// rnrs is how many RNR NAKs the device has sent.
func rnrs(t interface{ Fatalf(string, ...any) }, dev *cmpeer.LoopDevice) uint64 {
	return counter(t, dev, "send_rnr_err")
}

// Both ends write and read at the same time, with windows and lengths of any size. All bytes
// arrive, in order, and no message meets an end without a receive.
func TestFlowControl(t *testing.T) {
	dev := openLoop(t)
	rapid.Check(t, func(r *rapid.T) {
		ctx := testkit.Context(t)
		before := rnrs(t, dev)
		smallest := 1 << 20 // buffer, so that no run has more than 300 messages in a direction
		window := func(name string) []stream.Option {
			buffers, size := rapid.IntRange(1, 9).Draw(r, name+" buffers"), rapid.IntRange(1, 5000).Draw(r, name+" size")
			smallest = min(smallest, size)
			return []stream.Option{stream.WithWindow(buffers, size)}
		}
		a, b, err := connect(ctx, dev, window("client"), window("server"))
		if err != nil {
			r.Fatal(err)
		}
		var all sync.WaitGroup
		errs := make(chan error, 4)
		for _, ends := range [][2]*stream.Conn{{a, b}, {b, a}} {
			data := make([]byte, rapid.IntRange(0, 300*smallest).Draw(r, "bytes"))
			seed := rapid.Uint64().Draw(r, "seed")
			_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(data)
			all.Add(2)
			go func() { defer all.Done(); errs <- writeAll(ends[0], data, rand.New(rand.NewPCG(seed, 1))) }()
			go func() { defer all.Done(); errs <- readAll(ends[1], data, rand.New(rand.NewPCG(seed, 2))) }()
		}
		done := make(chan struct{})
		go func() { all.Wait(); close(done) }()
		select {
		case <-done:
		case <-ctx.Done():
			_, _ = a.Close(), b.Close()
			r.Fatal("deadlock")
		}
		for range 4 {
			if err := <-errs; err != nil {
				r.Error(err)
			}
		}
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			r.Error(err)
		}
		if n := dev.Allocated(); n != 0 {
			r.Errorf("%d pieces of memory are left", n)
		}
		if n := rnrs(t, dev) - before; n != 0 {
			r.Errorf("%d messages met an end without a receive", n)
		}
	})
}

// writeAll writes data in pieces of random length, and ends the direction.
func writeAll(c *stream.Conn, data []byte, r *rand.Rand) error {
	for len(data) > 0 {
		n, err := c.Write(data[:1+r.IntN(min(len(data), 1+r.IntN(20_000)))])
		if err != nil {
			return fmt.Errorf("write: %w", err)
		}
		data = data[n:]
	}
	return c.CloseWrite()
}

// readAll reads until the end in pieces of random length, and compares the content.
func readAll(c *stream.Conn, want []byte, r *rand.Rand) error {
	hash, total := sha256.New(), 0
	for {
		p := make([]byte, 1+r.IntN(20_000))
		n, err := c.Read(p)
		hash.Write(p[:n])
		total += n
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
	}
	if sum := sha256.Sum256(want); total != len(want) || !bytes.Equal(hash.Sum(nil), sum[:]) {
		return fmt.Errorf("%d bytes arrived, %d were written; equal content: false", total, len(want))
	}
	return nil
}

// One end closes its direction and still reads.
func TestHalfClose(t *testing.T) {
	a, b := pair(t, openLoop(t))
	if _, err := a.Write([]byte("request")); err != nil {
		t.Fatal(err)
	}
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(b); err != nil || string(got) != "request" {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := a.Write([]byte("more")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after CloseWrite: %v", err)
	}
	if _, err := b.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(a); err != nil || string(got) != "answer" {
		t.Errorf("%q, %v", got, err)
	}
}

// CloseWrite ends a Write that waits for the peer.
func TestCloseWriteWakes(t *testing.T) {
	dev := openLoop(t)
	for range 20 {
		a, _ := pair(t, dev, stream.WithWindow(1, 1))
		before := counter(t, dev, "sent_pkts")
		written := make(chan error, 1)
		go func() {
			_, err := a.Write(make([]byte, 2)) // the peer has one buffer of one byte
			written <- err
		}()
		for ctx := testkit.Context(t); counter(t, dev, "sent_pkts") == before && ctx.Err() == nil; {
			time.Sleep(10 * time.Microsecond)
		}
		closed := make(chan error, 1)
		go func() { closed <- a.CloseWrite() }()
		for _, x := range []struct {
			result <-chan error
			want   error
		}{{written, net.ErrClosed}, {closed, nil}} {
			if err := testkit.Receive(t, "it returns", x.result); !errors.Is(err, x.want) {
				t.Errorf("%v, want %v", err, x.want)
			}
		}
	}
}

// A peer that disconnects without its last message is an error, not an end.
func TestDisconnected(t *testing.T) {
	dev := openLoop(t)
	ctx := testkit.Context(t)
	l, err := stream.Listen(ctx, dev, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	hello := []byte("SRS1\x00\x08\x00\x00\x10\x00")
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept() // nil after Close
		accepted <- c
	}()
	raw, err := rdma.Dial(ctx, dev, l.Addr().String(), rdma.WithPrivate(hello))
	if err != nil {
		t.Fatal(err)
	}
	c := <-accepted
	defer c.Close()
	if _, err := raw.Do(ctx, &verbs.SendWR{Op: verbs.OpSendImm, Flags: verbs.Inline, Data: []byte("half")}); err != nil {
		t.Fatal(err)
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); string(got) != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v", got, err)
	}
}

// A listener of streams rejects what is none.
func TestNoStream(t *testing.T) {
	dev := openLoop(t)
	ctx := testkit.Context(t)
	l, err := stream.Listen(ctx, dev, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = l.Accept() }() // until Close
	defer l.Close()
	_, err = rdma.Dial(ctx, dev, l.Addr().String())
	var rejected *rdma.RejectedError
	if !errors.As(err, &rejected) || !bytes.HasPrefix(rejected.Private, []byte("this port has streams")) {
		t.Error(err)
	}
}
