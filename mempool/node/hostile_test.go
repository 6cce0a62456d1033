// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/mempool/internal/proto"
	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A server that sends what is no message of the pool: the connection ends with that reason, before the first
// lease and after it. The node then accesses nothing of the lease.
func TestGarbageFromServer(t *testing.T) {
	good := proto.Append(nil, &proto.Lease{Period: 1, Parts: 1, Entries: []proto.Entry{{Slab: 3, VA: 1 << 20, RKey: 2}}})
	for name, c := range map[string]struct {
		leased    bool
		bad       []byte
		unwelcome bool
	}{
		"no message":        {leased: false, bad: bytes.Repeat([]byte{0xFF}, 100)},
		"no welcome":        {bad: good, unwelcome: true},
		"half a lease":      {leased: false, bad: good[:len(good)-1]},
		"nothing":           {leased: true, bad: []byte{0}},
		"a node's message":  {leased: true, bad: proto.Append(nil, &proto.Leave{})},
		"after a lease":     {leased: true, bad: bytes.Repeat([]byte{0xFF}, proto.MaxMessage)},
		"a longer lease":    {leased: true, bad: append(bytes.Clone(good), 0)},
		"a part of nothing": {leased: true, bad: proto.Append(nil, &proto.Lease{Period: 2, Part: 1, Parts: 0})},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testkit.Context(t)
			dev := devices.Loopback(t)
			listener := listen(t, dev, proto.Offer{Challenge: 7})
			joined := make(chan struct{})
			go func() {
				conn := begun(ctx, t, listener)
				if conn == nil {
					return
				}
				defer conn.Close()
				if !c.unwelcome {
					_ = conn.Send(ctx, proto.Append(nil, &proto.Welcome{SlabBytes: 64 << 10, Slabs: 4, Hold: time.Second, Grace: time.Second}))
				}
				if c.leased {
					_ = conn.Send(ctx, good)
					<-joined
				}
				_ = conn.Send(ctx, c.bad)
				_, _ = conn.Recv(ctx, make([]byte, proto.MaxMessage)) // until the node has closed
			}()
			n, err := node.Join(ctx, dev, listener.Addr().String(), node.Config{Name: "one", Period: time.Second})
			close(joined)
			if c.leased {
				testkit.Must(t, err)
				defer n.Close()
				testkit.Receive(t, "the connection ends", n.Done())
				if err := n.Read(ctx, 3, 0, make([]byte, 8)); !errors.Is(err, proto.ErrFormat) {
					t.Errorf("an access afterwards: %v, want %v", err, proto.ErrFormat)
				}
				err = n.Err()
			}
			if !errors.Is(err, proto.ErrFormat) {
				t.Errorf("%v, want %v", err, proto.ErrFormat)
			}
		})
	}
}

// What a server refuses after Begin is ErrRefused, with its reason.
func TestRefusedLater(t *testing.T) {
	ctx := testkit.Context(t)
	dev := devices.Loopback(t)
	listener := listen(t, dev, proto.Offer{})
	go func() {
		for range 2 {
			conn, err := listener.Accept(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.Send(ctx, proto.Append(nil, &proto.Refusal{Text: []byte("too late\x1b[2J\u009b2J\n")}))
			_, _ = conn.Recv(ctx, make([]byte, proto.MaxMessage)) // Begin
			_, _ = conn.Recv(ctx, nil)
			_ = conn.Close()
		}
	}()
	_, err := node.Join(ctx, dev, listener.Addr().String(), node.Config{Name: "one", Period: time.Second})
	_, err2 := node.Status(ctx, dev, listener.Addr().String())
	for _, err := range []error{err, err2} {
		if !errors.Is(err, node.ErrRefused) || !strings.HasSuffix(err.Error(), `too late\u001b[2J\u009b2J\u000a`) {
			t.Errorf("%v, want %v", err, node.ErrRefused)
		}
	}
}

// What a server sends as names and as reasons has no control characters any more, which a terminal would obey.
func TestHostileText(t *testing.T) {
	const hostile, safe = "\x1b[2J\u009b2J\n", `\u001b[2J\u009b2J\u000a`
	ctx := testkit.Context(t)
	dev := devices.Loopback(t)
	listener := listen(t, dev, proto.Offer{})
	status, err := json.Marshal(lease.Status{Nodes: []lease.NodeStatus{{Name: hostile, Expected: lease.Prediction{By: hostile}}}})
	testkit.Must(t, err)
	joined := make(chan struct{}) // closed when Join has returned: it would return the reason of an earlier end
	go func() {
		for _, list := range [][]proto.Message{
			proto.SplitText(status),
			append([]proto.Message{&proto.Welcome{SlabBytes: 4096, Slabs: 1}, &proto.Lease{Period: 1, Parts: 1}, nil}, proto.SplitText([]byte(hostile))...),
		} {
			conn := begun(ctx, t, listener)
			if conn == nil {
				return
			}
			for _, m := range list {
				if m == nil {
					<-joined
					continue
				}
				_ = conn.Send(ctx, proto.Append(nil, m))
			}
			if _, question := list[0].(*proto.Text); question {
				_, _ = conn.Recv(ctx, nil)
			}
			_ = conn.Close()
		}
		r, err := listener.Next(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		_ = r.Reject([]byte(hostile))
	}()
	s, err := node.Status(ctx, dev, listener.Addr().String())
	testkit.Must(t, err)
	if n := s.Nodes[0]; n.Name != safe || n.Expected.By != safe {
		t.Errorf("%+v", n)
	}
	n, err := node.Join(ctx, dev, listener.Addr().String(), node.Config{Name: "one", Period: time.Second})
	close(joined)
	testkit.Must(t, err)
	defer n.Close()
	testkit.Receive(t, "the connection ends", n.Done())
	if err := n.Err(); !errors.Is(err, node.ErrRemoved) || !strings.HasSuffix(err.Error(), ": "+safe) {
		t.Errorf("%v", err)
	}
	_, err = node.Status(ctx, dev, listener.Addr().String())
	if err == nil || !strings.Contains(err.Error(), safe) || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%v", err)
	}
}

// A node that is asked for its report just before the connection ends learns the reason of the end all the same.
func TestRemovedWhileAsked(t *testing.T) {
	ctx := testkit.Context(t)
	dev := devices.Loopback(t)
	listener := listen(t, dev, proto.Offer{})
	for range 50 {
		joined := make(chan struct{})
		go func() {
			conn := begun(ctx, t, listener)
			if conn == nil {
				return
			}
			_ = conn.Send(ctx, proto.Append(nil, &proto.Welcome{SlabBytes: 4096, Slabs: 1}))
			_ = conn.Send(ctx, proto.Append(nil, &proto.Lease{Period: 1, Parts: 1}))
			<-joined
			_ = conn.Send(ctx, proto.Append(nil, &proto.Ask{Period: 2}))
			for _, m := range proto.SplitText([]byte("removed")) {
				_ = conn.Send(ctx, proto.Append(nil, m))
			}
			_ = conn.Close()
		}()
		n, err := node.Join(ctx, dev, listener.Addr().String(), node.Config{Name: "one", Period: time.Second})
		testkit.Must(t, err)
		close(joined)
		testkit.Receive(t, "the connection ends", n.Done())
		if err := n.Err(); !errors.Is(err, node.ErrRemoved) {
			t.Fatalf("%v", err)
		}
		testkit.Must(t, n.Close())
	}
}

// begun returns the next connection of such a listener, behind its Begin. nil: there is none, and the test has failed.
func begun(ctx context.Context, t *testing.T, l *rdma.Listener) *rdma.Conn {
	t.Helper()
	conn, err := l.Accept(ctx)
	if err != nil {
		t.Error(err)
		return nil
	}
	_, _ = conn.Recv(ctx, make([]byte, proto.MaxMessage))
	return conn
}

// listen returns a listener of a server that a test writes itself.
func listen(t *testing.T, dev verbs.Device, o proto.Offer) *rdma.Listener {
	t.Helper()
	offer := testkit.Must1(o.AppendBinary(nil))(t)
	l := testkit.Must1(rdma.Listen(t.Context(), dev, "127.0.0.1:0", rdma.WithMaxMessage(proto.MaxMessage), rdma.WithPrivate(offer)))(t)
	t.Cleanup(func() { _ = l.Close() })
	return l
}
