// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// line is a queue pair that is connected to itself, with room for one send, and a completion queue that can be resized.
type line struct {
	t  *testing.T
	cq verbs.ResizableCQ
	qp verbs.QP

	posted, polled uint64 // IDs
}

func newLine(t *testing.T, d verbs.Device, depth int) *line {
	t.Helper()
	pd, cq := testkit.Must1(d.AllocPD())(t), testkit.Must1(d.CreateCQ(depth))(t)
	q := testkit.Must1(pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSend: 1}))(t)
	devices.Connect(t, q, q, verbs.DefaultAttr())
	return &line{t: t, cq: cq.(verbs.ResizableCQ), qp: q}
}

// post posts WRITEs of no bytes, and waits until they have completed.
func (x *line) post(n int) {
	x.t.Helper()
	for range n {
		x.send(verbs.Signaled)
		x.posted++
	}
	x.send(0) // has room when those before have completed
}

func (x *line) send(f verbs.Flags) {
	x.t.Helper()
	wr := &verbs.SendWR{ID: x.posted, Op: verbs.OpWrite, Flags: f}
	testkit.Eventually(x.t, "the queue has room", func() error { return x.qp.PostSend(wr) })
}

// poll polls n completions, which are the next ones.
func (x *line) poll(n int) {
	x.t.Helper()
	ctx := testkit.Context(x.t)
	for n > 0 {
		testkit.Must(x.t, x.cq.Wait(ctx, false))
		var c [1]verbs.Completion
		if x.cq.Poll(c[:]) == 0 { // Resize has begun meanwhile
			continue
		}
		if c[0].WRID != x.polled || c[0].Status != verbs.StatusSuccess {
			x.t.Fatalf("%+v, want completion %d", c[0], x.polled)
		}
		x.polled++
		n--
	}
}

// Completions that were not polled are there after Resize, in their order, and the queue has the new room. A queue that
// is too small for them is refused, and nothing is lost.
func TestResize(t *testing.T) {
	bothDevices(t, func(t *testing.T, d verbs.Device) {
		x := newLine(t, d, 4)
		x.post(1)
		x.poll(1)
		x.post(3)
		full := func(depth int) {
			t.Helper()
			if err := x.cq.Resize(depth); err == nil || !strings.Contains(err.Error(), "wait in") {
				t.Errorf("a depth of %d for more completions: %v", depth, err)
			}
		}
		full(2)
		testkit.Must(t, x.cq.Resize(100))
		if n := x.cq.Depth(); n != 100 {
			t.Errorf("the depth is %d", n)
		}
		x.post(90)
		x.poll(93)
		testkit.Must(t, x.cq.Resize(7))
		x.post(7)
		full(6)
		testkit.Must(t, x.cq.Resize(7))
		x.poll(7)
		for _, depth := range []int{0, -1, ring.MaxEntries + 1} {
			if err := x.cq.Resize(depth); err == nil || !strings.Contains(err.Error(), "choose 1 to") {
				t.Errorf("a depth of %d: %v", depth, err)
			}
		}
		testkit.Must(t, x.qp.Destroy())
		testkit.Must(t, x.cq.Destroy())
		if err := x.cq.Resize(4); !errors.Is(err, verbs.ErrDestroyed) {
			t.Errorf("after Destroy: %v", err)
		}
	})
}

// While a goroutine waits for completions, another one resizes the queue again and again. None is lost, and none comes
// twice.
func TestResizeInUse(t *testing.T) {
	bothDevices(t, func(t *testing.T, d verbs.Device) {
		x := newLine(t, d, 16)
		resized := make(chan error, 1)
		go func() {
			for i := range 40 {
				if err := x.cq.Resize(8 + 50*(i%3)); err != nil {
					resized <- err
					return
				}
			}
			resized <- nil
		}()
		for i, ended := 0, false; !ended; i++ {
			x.post(1 + i%8)
			x.poll(1 + i%8)
			select {
			case err := <-resized:
				testkit.Must(t, err)
				ended = true
			default:
			}
		}
	})
}

// What a process sends to resize a queue is checked.
func TestResizeRefused(t *testing.T) {
	most := limits.Defaults()
	most.Process[limits.CQEntries] = 64
	_, dir := serve(t, device.Config{Limits: &most})
	v := dial(t, dir).hello().queuePair()
	resize := func(handle, depth uint32) error {
		_, err := v.call(proto.TResizeCQ, &proto.ResizeCQ{Handle: handle, Depth: depth}, &proto.CreateCQReply{})
		return err
	}
	word(v.cqMem, 1).Store(7)
	if err := resize(v.cq.Handle, 32); err == nil || !strings.Contains(err.Error(), "beyond the ring") {
		t.Errorf("an index that is not possible: %v", err)
	}
	word(v.cqMem, 1).Store(0)
	if err := resize(v.pd.Handle, 32); !errors.Is(err, proto.ErrHandle) {
		t.Errorf("a protection domain: %v", err)
	}
	for _, depth := range []uint32{0, 1 << 31} {
		if err := resize(v.cq.Handle, depth); err == nil || !strings.Contains(err.Error(), "choose 1 to") {
			t.Errorf("a depth of %d: %v", depth, err)
		}
	}
	if err := resize(v.cq.Handle, 128); !errors.Is(err, proto.ErrLimit) {
		t.Errorf("more entries than the limit: %v", err)
	}
	for range 20 { // the old entries are free again
		testkit.Must(t, resize(v.cq.Handle, 32))
	}
}
