// SPDX-License-Identifier: Apache-2.0

package rping_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/rping"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
)

// pair makes a connection: the end that dialed, and the end that accepted.
func pair(t *testing.T) (ctx context.Context, dialed, accepted *rdma.Conn) {
	t.Helper()
	dev := testkit.Must1(cmpeer.Open(cmpeer.Config{}))(t)
	t.Cleanup(func() { testkit.Must(t, dev.Close()) })
	return pairOf(t, dev)
}

// pairOf is pair on a device.
func pairOf(t *testing.T, dev verbs.Device) (ctx context.Context, dialed, accepted *rdma.Conn) {
	t.Helper()
	ctx = testkit.Context(t)
	l := testkit.Must1(rdma.Listen(ctx, dev, "127.0.0.1:0", rping.Options()...))(t)
	t.Cleanup(func() { _ = l.Close() }) // the device may have ended
	got := make(chan *rdma.Conn, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	dialed = testkit.Must1(rdma.Dial(ctx, dev, l.Addr().String(), rping.Options()...))(t)
	if accepted = <-got; accepted == nil {
		t.FailNow()
	}
	return ctx, dialed, accepted
}

func newClient(t *testing.T, c *rdma.Conn) *rping.Client {
	t.Helper()
	client := testkit.Must1(rping.NewClient(c))(t)
	t.Cleanup(func() { _ = client.Close() }) // a test may have done so
	return client
}

func newServer(t *testing.T, c *rdma.Conn) *rping.Server {
	t.Helper()
	server := testkit.Must1(rping.NewServer(c))(t)
	t.Cleanup(func() { _ = server.Close() }) // a test may have done so
	return server
}

func TestRoundTrips(t *testing.T) {
	ctx, dialed, accepted := pair(t)
	client, server := newClient(t, dialed), newServer(t, accepted)
	for _, n := range []int{1, 64, 4097, rping.MaxSize, 3} {
		data := bytes.Repeat([]byte{byte(n), 7, byte(n >> 8)}, n)[:n]
		served := make(chan error, 1)
		go func() {
			got, err := server.Answer(ctx)
			if err == nil && !bytes.Equal(got, data) {
				err = errors.New("the server has other data")
			}
			served <- err
		}()
		testkit.Must(t, client.Ping(ctx, data, true))
		testkit.Must(t, <-served)
	}
	if err := client.Ping(ctx, make([]byte, rping.MaxSize+1), true); err == nil {
		t.Error("too many bytes were sent")
	}
	testkit.Must(t, client.Close())
	if _, err := server.Answer(ctx); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v, want io.EOF", err)
	}
}

// A server that writes nothing back, or something else, is found out, unless nobody looks.
func TestWrongData(t *testing.T) {
	ctx, dialed, accepted := pair(t)
	client := newClient(t, dialed)
	go func() {
		var b [16]byte
		for range 3 * 2 {
			if _, err := accepted.Recv(ctx, b[:]); err != nil {
				return
			}
			if err := accepted.Send(ctx, b[:]); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = accepted.Close() })
	testkit.Must(t, client.Ping(ctx, []byte("not looked at"), false))
	for _, data := range []string{"a text", "\x00\x00"} {
		if err := client.Ping(ctx, []byte(data), true); !errors.Is(err, rping.ErrData) || !strings.Contains(err.Error(), "byte 0 of") {
			t.Errorf("%q: %v, want ErrData", data, err)
		}
	}
}

// place is a message of rping.
func place(r *rdma.Region, n uint32) []byte {
	b := binary.BigEndian.AppendUint64(nil, r.VA())
	b = binary.BigEndian.AppendUint32(b, r.RKey())
	return binary.BigEndian.AppendUint32(b, n)
}

// A client that asks for what it must not have gets no answer, and the server an error.
func TestBadClients(t *testing.T) {
	for name, c := range map[string]struct {
		messages func(r *rdma.Region) [][]byte
		want     string
	}{
		"too long":       {func(r *rdma.Region) [][]byte { return [][]byte{place(r, rping.MaxSize+1)} }, "at most 65536"},
		"huge":           {func(r *rdma.Region) [][]byte { return [][]byte{place(r, 1<<32-1)} }, "at most 65536"},
		"short message":  {func(r *rdma.Region) [][]byte { return [][]byte{place(r, 8)[:15]} }, "a message of 15 bytes"},
		"empty message":  {func(r *rdma.Region) [][]byte { return [][]byte{{}} }, "a message of 0 bytes"},
		"more wanted":    {func(r *rdma.Region) [][]byte { return [][]byte{place(r, 8), place(r, 9)} }, "wants 9 bytes back and gave 8"},
		"not its memory": {func(r *rdma.Region) [][]byte { return [][]byte{place(r, 4096)} }, "no memory with this key"},
		"ends in middle": {func(r *rdma.Region) [][]byte { return [][]byte{place(r, 8), nil} }, "has closed the connection"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, dialed, accepted := pair(t)
			server := newServer(t, accepted)
			r := testkit.Must1(dialed.Register(make([]byte, 64), verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite))(t)
			served := make(chan error, 1)
			go func() {
				_, err := server.Answer(ctx)
				served <- err
			}()
			for i, m := range c.messages(r) {
				var b [16]byte
				if i > 0 {
					_, err := dialed.Recv(ctx, b[:])
					testkit.Must(t, err)
				}
				if m == nil {
					testkit.Must(t, dialed.Close())
					continue
				}
				testkit.Must(t, dialed.Send(ctx, m))
			}
			if err := <-served; err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, io.EOF) {
				t.Errorf("%v, want %q", err, c.want)
			}
			_ = dialed.Close() // some have
			testkit.Must(t, r.Deregister())
		})
	}
}

// A server that is silent ends with the context, one that goes with an error.
func TestBadServers(t *testing.T) {
	ctx, dialed, accepted := pair(t)
	client := newClient(t, dialed)
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if err := client.Ping(short, []byte("x"), true); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the end of the context", err)
	}
	testkit.Must(t, accepted.Close())
	if err := client.Ping(ctx, []byte("x"), true); !errors.Is(err, rdma.ErrPeerClosed) {
		t.Errorf("%v, want ErrPeerClosed", err)
	}
}
