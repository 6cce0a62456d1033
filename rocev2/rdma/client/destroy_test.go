// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// answered returns a device whose server answers each message with the status that reply returns.
func answered(t *testing.T, reply func() proto.Status) *Device {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = c.(*net.UnixConn)
	}
	d := &Device{conn: ends[0], dead: make(chan struct{}), wake: -1, slots: make(chan struct{}, 1), cqs: map[uint32]*CQ{},
		qps: map[uint32]*QP{}, srqs: map[uint32]*SRQ{}, events: make(chan verbs.Event, 1)}
	d.calls.waiting = map[uint32]chan answer{}
	d.ends.Go(d.read)
	d.ends.Go(func() {
		defer ends[1].Close()
		for b := make([]byte, proto.MaxMessage); ; {
			n, _, err := proto.Read(ends[1], b)
			if err != nil {
				return
			}
			h, _, err := proto.Split(b[:n])
			if err != nil {
				t.Error(err)
				return
			}
			h.Type |= proto.Reply
			h.Status = reply()
			_ = proto.Write(ends[1], proto.Append(nil, h, nil))
		}
	})
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// rings returns memory of rings, as mapReply does, and its ring.
func rings(t *testing.T, s ring.Shape) ([]byte, ring.Ring) {
	t.Helper()
	b, err := unix.Mmap(-1, 0, s.Bytes(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ring.Open(b, s)
	if err != nil {
		t.Fatal(err)
	}
	return b, r
}

// While the server destroys a queue, its memory and its handle may be of another one already: they are not used. If
// the server refuses, the queue is as before.
func TestMemoryDuringDestroy(t *testing.T) {
	for name, status := range map[string]proto.Status{"done": proto.StatusOK, "refused": proto.StatusOK + 1} {
		t.Run(name, func(t *testing.T) {
			const handle = 7
			var mu sync.Mutex // the race detector does not see that a message comes before its answer
			var during func()
			d := answered(t, func() proto.Status {
				mu.Lock()
				defer mu.Unlock()
				during()
				return status
			})
			// end destroys a queue, and f runs meanwhile.
			end := func(q interface{ Destroy() error }, f func()) error {
				mu.Lock()
				during = f
				mu.Unlock()
				err := q.Destroy()
				mu.Lock()
				defer mu.Unlock()
				return err
			}
			shape := ring.ShapeFor(4, wqe.CqeBytes)

			b, r := rings(t, shape)
			c := &CQ{
				d: d, handle: handle, memory: b, in: ring.NewCompletionConsumer(r), gone: make(chan struct{}), notify: make(chan struct{}, 1), fd: -1,
			}
			d.cqs[handle] = c
			p := ring.NewCompletions(r, 4).NewProducer()
			wqe.EncodeCompletion(p.Next(), &verbs.Completion{WRID: 9})
			p.Publish(false)
			other := &CQ{fd: -1, gone: make(chan struct{})}
			out := make([]verbs.Completion, 1)
			err := end(c, func() {
				if n := c.Poll(out); n != 0 || c.ready() {
					t.Errorf("%d completions of a queue during its destruction", n)
				}
				if status == proto.StatusOK {
					d.mu.Lock()
					d.cqs[handle] = other // another goroutine's queue, with the same handle
					d.mu.Unlock()
				}
			})
			if (err == nil) != (status == proto.StatusOK) {
				t.Errorf("the completion queue: %v", err)
			}
			if status == proto.StatusOK {
				if d.cqs[handle] != other {
					t.Error("the completion queue that has the handle now was forgotten")
				}
			} else {
				if len(c.notify) != 1 {
					t.Error("who waits for a completion is not woken: its request was lost")
				}
				if n := c.Poll(out); n != 1 || out[0].WRID != 9 || d.cqs[handle] != c {
					t.Errorf("%d completions after a refusal, want 1", n)
				}
			}

			b, r = rings(t, shape)
			q := &QP{pd: &PD{d: d}, handle: handle, memory: b, send: ring.NewProducer(r, 4), recv: ring.NewProducer(r, 4)}
			d.qps[handle] = q
			err = end(q, func() {
				if err := q.PostSend(&verbs.SendWR{}); !errors.Is(err, verbs.ErrDestroyed) {
					t.Errorf("PostSend: %v", err)
				}
				if err := q.PostRecv(&verbs.RecvWR{}); !errors.Is(err, verbs.ErrDestroyed) {
					t.Errorf("PostRecv: %v", err)
				}
			})
			if (err == nil) != (status == proto.StatusOK) || q.destroyed() != (err == nil) {
				t.Errorf("the queue pair: %v", err)
			}

			b, r = rings(t, shape)
			s := &SRQ{d: d, handle: handle, memory: b, recv: ring.NewProducer(r, 4)}
			d.srqs[handle] = s
			err = end(s, func() {
				if err := s.PostRecv(&verbs.RecvWR{SGL: make([]verbs.SGE, 1)}); !errors.Is(err, verbs.ErrDestroyed) {
					t.Errorf("PostRecv to the shared receive queue: %v", err)
				}
			})
			if (err == nil) != (status == proto.StatusOK) || (d.srqs[handle] == nil) != (err == nil) {
				t.Errorf("the shared receive queue: %v", err)
			}
			if err := s.Destroy(); status == proto.StatusOK && !errors.Is(err, verbs.ErrDestroyed) {
				t.Errorf("the shared receive queue, again: %v", err)
			}
		})
	}
}

// The second Destroy of an object returns ErrDestroyed. A region counts once only.
func TestDestroyTwice(t *testing.T) {
	var gone atomic.Bool
	d := answered(t, func() proto.Status {
		if gone.Load() {
			return proto.StatusHandle
		}
		return proto.StatusOK
	})
	m, other := &MR{d: d, handle: 1}, &MR{d: d, handle: 2}
	m.keepMemory()
	other.keepMemory()
	if err := m.Deregister(); err != nil {
		t.Fatal(err)
	}
	gone.Store(true)
	for _, err := range []error{m.Deregister(), (&PD{d, 3}).Free(), (&MW{d: d, handle: 4}).Free()} {
		if !errors.Is(err, verbs.ErrDestroyed) || !errors.Is(err, proto.ErrHandle) {
			t.Error(err)
		}
	}
	if d.regions.len() != 1 {
		t.Errorf("%d regions", d.regions.len())
	}
}
