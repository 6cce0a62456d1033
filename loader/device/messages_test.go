// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// counted is a socket in front of that of a server, which notes the requests that pass.
type counted struct {
	dir string

	mu      sync.Mutex
	seen    []proto.Type
	holding proto.Type // type whose messages are held back; see hold
	held    uint32     // number of that batch
	release chan struct{}
}

func countMessages(t *testing.T, server string) *counted {
	t.Helper()
	dir := testkit.SocketDir(t)
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: proto.SocketPath(dir, "lo"), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c := &counted{dir: dir}
	go func() {
		for {
			client, err := l.AcceptUnix()
			if err != nil {
				return
			}
			server, err := proto.Dial(t.Context(), proto.SocketPath(server, "lo"))
			if err != nil {
				client.Close()
				return
			}
			go forward(client, server, c.request)
			go forward(server, client, c.reply)
		}
	}()
	return c
}

// hold holds the reply to a batch with a request of a type, and what follows, until release is closed.
func (c *counted) hold(t proto.Type) (release chan struct{}) {
	release = make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holding, c.release = t, release
	return release
}

// request notes a request.
func (c *counted) request(h proto.Header, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, h.Type)
	if h.Type != proto.TBatch {
		return
	}
	parts, _ := proto.DecodeBatch(body)
	if slices.ContainsFunc(parts, func(p proto.Part) bool { return p.Type == c.holding }) {
		c.held = h.Seq
	}
}

// reply waits where a reply is held.
func (c *counted) reply(h proto.Header, _ []byte) {
	c.mu.Lock()
	held, release := h.Type == proto.TBatch|proto.Reply && h.Seq == c.held, c.release
	c.mu.Unlock()
	if held {
		<-release
	}
}

func forward(from, to *net.UnixConn, note func(proto.Header, []byte)) {
	defer to.Close()
	b := make([]byte, proto.MaxMessage)
	for {
		n, fds, err := proto.Read(from, b)
		if err != nil {
			return
		}
		if h, body, err := proto.Split(b[:n]); err == nil {
			note(h, body)
		}
		err = proto.Write(to, b[:n], fds...)
		proto.CloseFDs(fds)
		if err != nil {
			return
		}
	}
}

// take returns the requests since the last call. A message that arrives before the RTU is not one of them: it is
// reported with a TCMArrived.
func (c *counted) take() []proto.Type {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.seen
	c.seen = nil
	return slices.DeleteFunc(seen, func(t proto.Type) bool { return t == proto.TCMArrived })
}

// Dial, a message each way and Close take seven messages to the server, and five at the other end.
func TestMessagesOfConnection(t *testing.T) {
	s, dir := serve(t, device.Config{})
	active, passive := countMessages(t, dir), countMessages(t, dir)
	ends := [2]*client.Device{open(t, active.dir), open(t, passive.dir)}
	l, err := rdma.Listen(t.Context(), ends[1], "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	once := func() {
		done := make(chan error, 1)
		go func() {
			c, err := l.Accept(t.Context())
			if err != nil {
				done <- err
				return
			}
			m, err := c.RecvMessage(t.Context())
			if err == nil {
				err = c.Send(t.Context(), m.Bytes())
			}
			if _, end := c.RecvMessage(t.Context()); !errors.Is(end, io.EOF) {
				err = errors.Join(err, end)
			}
			done <- errors.Join(err, c.Close())
		}()
		c, err := rdma.Dial(t.Context(), ends[0], l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Send(t.Context(), []byte("hello")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.RecvMessage(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.Close(), <-done); err != nil {
			t.Fatal(err)
		}
	}
	gone := func() { // both ends have destroyed their queue pairs, some seconds later
		testkit.Eventually(t, "no queue pair is left", func() bool {
			return !slices.ContainsFunc(s.Status().Processes, func(p device.Process) bool { return p.QPs > 0 })
		})
	}
	once() // the first one makes domain, session and arena, too
	gone()
	active.take()
	passive.take()
	once()
	gone()
	const batch = proto.TBatch
	if got, want := active.take(), []proto.Type{proto.TPort, batch, proto.TCMConnect, batch, batch, proto.TDeregMR, batch}; !slices.Equal(got, want) {
		t.Errorf("the end that dials: %#x, want %#x", got, want)
	}
	if got, want := passive.take(), []proto.Type{batch, batch, proto.TModifyQP, proto.TDeregMR, batch}; !slices.Equal(got, want) {
		t.Errorf("the end that accepts: %#x, want %#x", got, want)
	}
}

// The context of Accept ends when the server has accepted, and its reply has not arrived. The connection of the peer
// ends, and nothing is left.
func TestAcceptEndsLate(t *testing.T) {
	for name, accept := range map[string]func(*testing.T, context.Context, *rdma.Request, *client.Device) error{
		"Accept": func(_ *testing.T, ctx context.Context, r *rdma.Request, _ *client.Device) error {
			_, err := r.Accept(ctx)
			return err
		},
		"AcceptQP": func(t *testing.T, ctx context.Context, r *rdma.Request, d *client.Device) error {
			e := newEnd(t, d, 4096, verbs.QPInit{Type: verbs.RC})
			t.Cleanup(func() { // no call has a reply while one is held
				if err := e.qp.Destroy(); err != nil {
					t.Error(err)
				}
			})
			_, err := r.AcceptQP(ctx, e.qp)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := serve(t, device.Config{})
			passive := countMessages(t, dir)
			release := passive.hold(proto.TCMAccept)
			there := open(t, passive.dir)
			l, err := rdma.Listen(t.Context(), there, "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			accepted := make(chan error, 1)
			go func() {
				r, err := l.Next(ctx)
				if err == nil {
					err = accept(t, ctx, r, there)
				}
				accepted <- err
			}()
			c, err := rdma.Dial(t.Context(), open(t, dir), l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			if err := <-accepted; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
			close(release)
			waiting := testkit.Context(t)
			var rejected *rdma.RejectedError // if the RTU has not arrived yet
			if _, err := c.RecvMessage(waiting); !errors.Is(err, io.EOF) && !errors.As(err, &rejected) {
				t.Errorf("the peer: %v", err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			testkit.Eventually(t, "no connection is left", func() bool {
				return !slices.ContainsFunc(s.Status().Processes, func(p device.Process) bool { return p.Connections > 0 || name == "Accept" && p.QPs > 0 })
			})
		})
	}
}

// The queue pair of a connection was destroyed by the application: Close destroys the completion queue alone.
func TestPairWithoutQP(t *testing.T) {
	s, dir := serve(t, device.Config{})
	d := open(t, dir)
	e := newEnd(t, d, 4096, verbs.QPInit{Type: verbs.RC})
	if err := e.qp.Destroy(); err != nil {
		t.Fatal(err)
	}
	if err := d.DestroyPair(e.qp, e.cq); !errors.Is(err, verbs.ErrDestroyed) {
		t.Error(err)
	}
	if n := s.Status().Processes[0].CQs; n != 0 {
		t.Errorf("%d completion queues are left", n)
	}
}

// A batch that fails somewhere leaves nothing, and the program gets the error of what has failed.
func TestPairFails(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit limits.Kind
	}{{"completion queue", limits.CQs}, {"region", limits.MRs}, {"queue pair", limits.QPs}} {
		t.Run(c.name, func(t *testing.T) {
			most := limits.Defaults()
			most.Process[c.limit] = 1
			s, dir := serve(t, device.Config{Limits: &most})
			d := open(t, dir)
			pd, err := d.AllocPD()
			if err != nil {
				t.Fatal(err)
			}
			mem, err := d.Alloc(8192)
			if err != nil {
				t.Fatal(err)
			}
			pair := func() (verbs.CQ, verbs.QP, verbs.MR, error) {
				return pd.(*client.PD).CreatePair(16, verbs.QPInit{Type: verbs.RC}, verbs.DefaultAttr(), mem)
			}
			cq, qp, mr, err := pair()
			if err != nil {
				t.Fatal(err)
			}
			before := s.Status().Processes
			if cq, qp, mr, err := pair(); !errors.Is(err, proto.ErrLimit) || cq != nil || qp != nil || mr != nil {
				t.Errorf("%v, %v, %v, %v", cq, qp, mr, err)
			}
			if after := s.Status().Processes; !slices.Equal(after, before) {
				t.Errorf("%+v, before it failed %+v", after, before)
			}
			if qp.State() != verbs.StateInit {
				t.Errorf("the first one is in %s", qp.State())
			}
			if err := errors.Join(d.DestroyPair(qp, cq), mr.Deregister(), d.Free(mem)); err != nil {
				t.Fatal(err)
			}
			if err := d.DestroyPair(qp, cq); !errors.Is(err, verbs.ErrDestroyed) {
				t.Errorf("a second end: %v", err)
			}
			mem, _ = d.Alloc(8192)
			if _, _, _, err := pair(); err != nil {
				t.Errorf("after the end of the first one: %v", err)
			}
		})
	}
}

// A completion queue that another queue pair uses stays when the pair is destroyed.
func TestDestroyPairInPart(t *testing.T) {
	_, dir := serve(t, device.Config{})
	d := open(t, dir)
	e := newEnd(t, d, 4096, verbs.QPInit{Type: verbs.RC})
	other, err := e.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.DestroyPair(e.qp, e.cq); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("a queue that is used: %v", err)
	}
	if err := e.qp.Destroy(); !errors.Is(err, verbs.ErrDestroyed) {
		t.Errorf("the queue pair: %v", err)
	}
	if err := errors.Join(other.Destroy(), e.cq.Destroy()); err != nil {
		t.Error(err)
	}
}
