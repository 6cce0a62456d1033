// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// An idle queue pair is small, and a long ring is freed.
func TestIdleSize(t *testing.T) {
	if n := reflect.TypeFor[QP]().Size(); n > 2048 {
		t.Errorf("an idle queue pair has %d bytes, want 2048 at most", n)
	}
	t.Logf("a queue pair has %d bytes, a work request %d", reflect.TypeFor[QP]().Size(), reflect.TypeFor[wqe]().Size())
	x := newSource(t, verbs.RC)
	for i := range 100 {
		x.post(verbs.OpWrite, 1, 0)
		x.sends(1)
		if i%3 == 0 { // indices wrap in the ring while it grows
			x.ack(i / 2)
		}
	}
	x.ack(99)
	if got := len(x.cq.take()); got != 100 {
		t.Fatalf("%d completions", got)
	}
	if len(x.q.req.ring) <= ringMin {
		t.Fatal("the ring did not grow")
	}
	x.expire()
	if x.q.req.ring != nil || x.q.Deadline() != 0 {
		t.Error("the ring was not given back")
	}
	x.post(verbs.OpWrite, 1, 0)
	x.wantSent("100A")
}

// The errors of PostSend; nothing is queued then.
func TestPostErrors(t *testing.T) {
	long := func(wr *verbs.SendWR) { wr.SGL = make([]verbs.SGE, 5) }
	huge := func(wr *verbs.SendWR) { wr.SGL = []verbs.SGE{{Len: 1 << 31}, {Len: 1}} }
	for _, c := range []struct {
		name string
		typ  verbs.QPType
		op   verbs.Op
		n    uint32
		f    verbs.Flags
		set  func(*verbs.SendWR)
		want error
	}{
		{"READ on UC", verbs.UC, verbs.OpRead, 4, 0, nil, verbs.ErrOp},
		{"WRITE on UD", verbs.UD, verbs.OpWrite, 4, 0, nil, verbs.ErrOp},
		{"no operation", verbs.RC, 0, 4, 0, nil, verbs.ErrOp},
		{"receive", verbs.RC, verbs.OpRecv, 4, 0, nil, verbs.ErrOp},
		{"long list", verbs.RC, verbs.OpSend, 0, 0, long, verbs.ErrSGL},
		{"long message", verbs.RC, verbs.OpWrite, 0, 0, huge, verbs.ErrTooLong},
		{"READ of half of all PSNs", verbs.RC, verbs.OpRead, 1 << 31, 0, nil, verbs.ErrTooLong},
		{"UD above the PMTU", verbs.UD, verbs.OpSend, 257, 0, nil, verbs.ErrTooLong},
		{"UD without a handle", verbs.UD, verbs.OpSend, 4, 0, func(wr *verbs.SendWR) { wr.AH = nil }, verbs.ErrAH},
		{"UD to a wide number", verbs.UD, verbs.OpSend, 4, 0, func(wr *verbs.SendWR) { wr.RemoteQPN = 1 << 24 }, verbs.ErrAH},
		{"UD with Fence", verbs.UD, verbs.OpSend, 4, verbs.Fence, nil, verbs.ErrFence},
		{"ATOMIC of 4 bytes", verbs.RC, verbs.OpFetchAdd, 4, 0, nil, verbs.ErrAtomic},
		{"inline and a list", verbs.RC, verbs.OpSend, 4, verbs.Inline, nil, verbs.ErrInline},
		{"inline READ", verbs.RC, verbs.OpRead, 0, verbs.Inline, func(wr *verbs.SendWR) { wr.SGL = nil }, verbs.ErrInline},
		{"long inline", verbs.RC, verbs.OpSend, 0, verbs.Inline, func(wr *verbs.SendWR) { wr.SGL, wr.Data = nil, make([]byte, 513) }, verbs.ErrInline},
		{"data without Inline", verbs.RC, verbs.OpSend, 0, 0, func(wr *verbs.SendWR) { wr.Data = make([]byte, 1) }, verbs.ErrData},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newSource(t, c.typ)
			var change []func(*verbs.SendWR)
			if c.set != nil {
				change = append(change, c.set)
			}
			if err := x.q.PostSend(x.wr(c.op, c.n, c.f, change...)); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			x.wantSent("")
			x.wantDone(0)
		})
	}

	x := newSource(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.MaxRdAtomic = 0 })
	if err := x.q.PostSend(x.wr(verbs.OpRead, 4, 0)); !errors.Is(err, verbs.ErrRdAtomic) {
		t.Errorf("READ with MaxRdAtomic 0: %v", err)
	}
	// ERR reached from INIT: attributes of RTR and RTS are not set, and not needed to flush.
	q, cq := lead(t, verbs.RC, verbs.StateErr), &testCQ{}
	q.cfg.SendCQ, q.cfg.MaxSendSGE = cq, 1
	for _, op := range []verbs.Op{verbs.OpSend, verbs.OpWrite, verbs.OpRead, verbs.OpFetchAdd} {
		err := q.PostSend(x.wr(op, 8, 0))
		if got := cq.take(); err != nil || len(got) != 1 || got[0].Status != verbs.StatusWRFlushed {
			t.Errorf("operation %d in ERR: %v, completions %+v", op, err, got)
		}
	}
	if err := q.PostSend(x.wr(verbs.OpFetchAdd, 4, 0)); !errors.Is(err, verbs.ErrAtomic) {
		t.Errorf("FETCH_ADD of 4 bytes in ERR: %v", err)
	}
	x = newSource(t, verbs.RC, func(c *Config, _ *verbs.Attr) { c.MaxSend = 3 })
	for range 3 {
		x.post(verbs.OpSend, 1, 0)
	}
	if err := x.q.PostSend(x.wr(verbs.OpSend, 1, 0)); !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("full: %v", err)
	}
	if err := newTarget(t, verbs.RC).q.PostSend(x.wr(verbs.OpSend, 1, 0)); !errors.Is(err, verbs.ErrSendState) || !strings.Contains(err.Error(), "RTR") {
		t.Errorf("in RTR: %v", err)
	}
}

// Completions: only requested ones, and always errors.
func TestSignaled(t *testing.T) {
	x := newSource(t, verbs.RC, func(c *Config, _ *verbs.Attr) { c.SignalAll = false })
	x.post(verbs.OpWrite, 1, 0)
	x.post(verbs.OpWrite, 1, verbs.Signaled)
	x.post(verbs.OpWrite, 1, 0)
	x.wantSent("0A 1A 2A")
	x.ack(1)
	x.wantDone(1, verbs.StatusSuccess)
	x.nak(2, rocev2.NAKRemoteAccess)
	x.wantDone(2, verbs.StatusRemoteAccess)

	x = newSource(t, verbs.RC)
	x.post(verbs.OpRead, 300, 0)
	x.post(verbs.OpFetchAdd, 8, 0, func(wr *verbs.SendWR) { wr.SGL[0].Addr += 1024 })
	x.wantSent("0A 2A")
	x.response(0, 0, 2, 300)
	x.atomic(2, 0x1122334455667788)
	got := x.cq.take()
	want := []verbs.Completion{
		{WRID: 0, QPN: sourceQPN, Op: verbs.OpRead, Bytes: 300},
		{WRID: 1, QPN: sourceQPN, Op: verbs.OpFetchAdd, Bytes: 8},
	}
	if !slices.Equal(got, want) {
		t.Errorf("completions: got %+v, want %+v", got, want)
	}
	if x.word(1024) != 0x1122334455667788 {
		t.Errorf("ATOMIC result %#x", x.word(1024))
	}
}

// Modify to ERR flushes in order, also unsignaled work requests; RESET discards them.
func TestFlushSends(t *testing.T) {
	x := newSource(t, verbs.RC, func(c *Config, _ *verbs.Attr) { c.SignalAll = false })
	for range 20 {
		x.post(verbs.OpWrite, 300, 0)
	}
	x.sends(7)
	if err := x.q.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState); err != nil {
		t.Fatal(err)
	}
	x.wantDone(0, slices.Repeat([]verbs.Status{verbs.StatusWRFlushed}, 20)...)
	x.wantSent("")
	x.ack(1)
	x.post(verbs.OpWrite, 1, 0)
	x.wantDone(20, verbs.StatusWRFlushed)
	if x.q.Deadline() != 0 {
		t.Error("a deadline in ERR")
	}

	x = newSource(t, verbs.RC)
	x.post(verbs.OpWrite, 1, 0)
	x.sends(1)
	if err := x.q.Modify(verbs.Attr{State: verbs.StateReset}, verbs.MaskState); err != nil {
		t.Fatal(err)
	}
	x.wantDone(0)
	if x.q.Deadline() != 0 {
		t.Error("a deadline in RESET")
	}
}
