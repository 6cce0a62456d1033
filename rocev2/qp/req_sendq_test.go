// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
)

// An idle queue pair is small, and a long ring is freed.
func TestIdleSize(t *testing.T) {
	if n := reflect.TypeFor[QP]().Size(); n > 2048 {
		t.Errorf("an idle queue pair has %d bytes, want 2048 at most", n)
	}
	t.Logf("a queue pair has %d bytes, a work request %d", reflect.TypeFor[QP]().Size(), reflect.TypeFor[wqe]().Size())
	x := newSource(t, RC)
	for i := range 100 {
		x.post(OpWrite, 1, 0)
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
	x.post(OpWrite, 1, 0)
	x.wantSent("100A")
}

// The errors of PostSend; nothing is queued then.
func TestPostErrors(t *testing.T) {
	long := func(wr *SendWR) { wr.SGL = make([]SGE, 5) }
	huge := func(wr *SendWR) { wr.SGL = []SGE{{0, 1 << 31, 0}, {0, 1, 0}} }
	for _, c := range []struct {
		name string
		typ  Type
		op   Operation
		n    uint32
		f    Flags
		set  func(*SendWR)
		want error
	}{
		{"READ on UC", UC, OpRead, 4, 0, nil, ErrSendOp},
		{"WRITE on UD", UD, OpWrite, 4, 0, nil, ErrSendOp},
		{"no operation", RC, 0, 4, 0, nil, ErrSendOp},
		{"receive", RC, OpRecv, 4, 0, nil, ErrSendOp},
		{"long list", RC, OpSend, 0, 0, long, ErrSendSGL},
		{"long message", RC, OpWrite, 0, 0, huge, ErrSendTooLong},
		{"READ of half of all PSNs", RC, OpRead, 1 << 31, 0, nil, ErrSendTooLong},
		{"UD above the PMTU", UD, OpSend, 257, 0, nil, ErrSendTooLong},
		{"UD without a handle", UD, OpSend, 4, 0, func(wr *SendWR) { wr.AH = nil }, ErrSendAH},
		{"UD to a wide number", UD, OpSend, 4, 0, func(wr *SendWR) { wr.AH.QPN = 1 << 24 }, ErrSendAH},
		{"UD with Fence", UD, OpSend, 4, Fence, nil, ErrSendFence},
		{"ATOMIC of 4 bytes", RC, OpFetchAdd, 4, 0, nil, ErrSendAtomic},
		{"inline and a list", RC, OpSend, 4, Inline, nil, ErrSendInline},
		{"inline READ", RC, OpRead, 0, Inline, func(wr *SendWR) { wr.SGL = nil }, ErrSendInline},
		{"long inline", RC, OpSend, 0, Inline, func(wr *SendWR) { wr.SGL, wr.Data = nil, make([]byte, 513) }, ErrSendInline},
		{"data without Inline", RC, OpSend, 0, 0, func(wr *SendWR) { wr.Data = make([]byte, 1) }, errSendData},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newSource(t, c.typ)
			var change []func(*SendWR)
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

	x := newSource(t, RC, func(_ *Config, a *Attr) { a.MaxRdAtomic = 0 })
	if err := x.q.PostSend(x.wr(OpRead, 4, 0)); !errors.Is(err, ErrSendRdAtomic) {
		t.Errorf("READ with MaxRdAtomic 0: %v", err)
	}
	// ERR reached from INIT: attributes of RTR and RTS are not set, and not needed to flush.
	q, cq := lead(t, RC, Err), &testCQ{}
	q.cfg.SendCQ, q.cfg.MaxSendSGE = cq, 1
	for _, op := range []Operation{OpSend, OpWrite, OpRead, OpFetchAdd} {
		err := q.PostSend(x.wr(op, 8, 0))
		if got := cq.take(); err != nil || len(got) != 1 || got[0].Status != WRFlushed {
			t.Errorf("operation %d in ERR: %v, completions %+v", op, err, got)
		}
	}
	if err := q.PostSend(x.wr(OpFetchAdd, 4, 0)); !errors.Is(err, ErrSendAtomic) {
		t.Errorf("FETCH_ADD of 4 bytes in ERR: %v", err)
	}
	x = newSource(t, RC, func(c *Config, _ *Attr) { c.MaxSend = 3 })
	for range 3 {
		x.post(OpSend, 1, 0)
	}
	if err := x.q.PostSend(x.wr(OpSend, 1, 0)); !errors.Is(err, ErrSendFull) {
		t.Errorf("full: %v", err)
	}
	if err := newTarget(t, RC).q.PostSend(x.wr(OpSend, 1, 0)); !errors.Is(err, ErrSendState) || !strings.Contains(err.Error(), "RTR") {
		t.Errorf("in RTR: %v", err)
	}
}

// Completions: only requested ones, and always errors.
func TestSignaled(t *testing.T) {
	x := newSource(t, RC, func(c *Config, _ *Attr) { c.SignalAll = false })
	x.post(OpWrite, 1, 0)
	x.post(OpWrite, 1, Signaled)
	x.post(OpWrite, 1, 0)
	x.wantSent("0A 1A 2A")
	x.ack(1)
	x.wantDone(1, Success)
	x.nak(2, rocev2.NAKRemoteAccess)
	x.wantDone(2, RemoteAccess)

	x = newSource(t, RC)
	x.post(OpRead, 300, 0)
	x.post(OpFetchAdd, 8, 0, func(wr *SendWR) { wr.SGL[0].Addr += 1024 })
	x.wantSent("0A 2A")
	x.response(0, 0, 2, 300)
	x.atomic(2, 0x1122334455667788)
	got := x.cq.take()
	want := []Completion{
		{WRID: 0, QPN: sourceQPN, Op: OpRead, Bytes: 300},
		{WRID: 1, QPN: sourceQPN, Op: OpFetchAdd, Bytes: 8},
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
	x := newSource(t, RC, func(c *Config, _ *Attr) { c.SignalAll = false })
	for range 20 {
		x.post(OpWrite, 300, 0)
	}
	x.sends(7)
	if err := x.q.Modify(Attr{State: Err}, MaskState); err != nil {
		t.Fatal(err)
	}
	x.wantDone(0, slices.Repeat([]Status{WRFlushed}, 20)...)
	x.wantSent("")
	x.ack(1)
	x.post(OpWrite, 1, 0)
	x.wantDone(20, WRFlushed)
	if x.q.Deadline() != 0 {
		t.Error("a deadline in ERR")
	}

	x = newSource(t, RC)
	x.post(OpWrite, 1, 0)
	x.sends(1)
	if err := x.q.Modify(Attr{State: Reset}, MaskState); err != nil {
		t.Fatal(err)
	}
	x.wantDone(0)
	if x.q.Deadline() != 0 {
		t.Error("a deadline in RESET")
	}
}
