// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Out-of-order mode through the device: the operations, their completions, what is refused, and the end.
func TestOutOfOrder(t *testing.T) {
	_, dir := serve(t, device.Config{})
	const size = 100_000
	init := verbs.QPInit{Type: verbs.RC, OutOfOrder: true, Payload: 1392, MaxSend: 8}
	a, b := newEnd(t, open(t, dir), size, init), newEnd(t, open(t, dir), size, init)
	connect(t, a, b)
	wrong := init
	wrong.Payload = 1390
	wrong.SendCQ, wrong.RecvCQ = a.cq, a.cq
	if _, err := a.pd.CreateQP(wrong); err == nil || !strings.Contains(err.Error(), "Payload is 1390") {
		t.Errorf("a payload of 1390: %v", err)
	}
	for i, op := range []verbs.Op{verbs.OpWrite, verbs.OpWriteNotify, verbs.OpRead} {
		id := uint64(i + 1)
		for k := range a.buf {
			a.buf[k], b.buf[k] = byte(k*7+i), byte(k*3+i)
		}
		want := bytes.Clone(a.buf)
		if op == verbs.OpRead {
			want = bytes.Clone(b.buf)
		}
		if op == verbs.OpWriteNotify {
			if err := b.qp.PostRecv(&verbs.RecvWR{ID: 9}); err != nil {
				t.Fatal(err)
			}
		}
		wr := verbs.SendWR{ID: id, Op: op, Flags: verbs.Signaled | verbs.Solicited, SGL: a.sgl(0, size), RemoteAddr: b.mr.VA(), RKey: b.mr.RKey(), Imm: 77}
		if err := a.qp.PostSend(&wr); err != nil {
			t.Fatal(err)
		}
		if c := a.wait(t); c.WRID != id || c.Op != op || c.Status != verbs.StatusSuccess {
			t.Errorf("%+v", c)
		}
		if op == verbs.OpWriteNotify {
			if c := b.wait(t); c.WRID != 9 || c.Op != verbs.OpRecvNotify || c.Imm != 77 || !c.HasImm || c.Bytes != size || !c.Solicited {
				t.Errorf("%+v", c)
			}
		}
		if !bytes.Equal(a.buf, want) || !bytes.Equal(b.buf, want) {
			t.Errorf("operation %d: memory differs", op)
		}
	}
	for want, wr := range map[error]verbs.SendWR{
		verbs.ErrOp: {Op: verbs.OpSend}, verbs.ErrUnordered: {Op: verbs.OpRead, Flags: verbs.Fence},
		verbs.ErrInline: {Op: verbs.OpWrite, Flags: verbs.Inline},
	} {
		if err := a.qp.PostSend(&wr); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}

	// A wrong key fails one message. After ERR the others are flushed, each once.
	bad := verbs.SendWR{ID: 20, Op: verbs.OpWrite, SGL: a.sgl(0, 10), RemoteAddr: b.mr.VA(), RKey: b.mr.RKey() ^ 1}
	if err := a.qp.PostSend(&bad); err != nil {
		t.Fatal(err)
	}
	if c := a.wait(t); c.WRID != 20 || c.Status != verbs.StatusRemoteAccess || a.qp.State() != verbs.StateRTS {
		t.Errorf("%+v, %s", c, a.qp.State())
	}
	if err := a.qp.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState); err != nil {
		t.Fatal(err)
	}
	for id := range uint64(20) { // more than the queue has at once
		if err := a.qp.PostSend(&verbs.SendWR{ID: id, Op: verbs.OpRead, SGL: a.sgl(0, 10)}); err != nil {
			t.Fatal(err)
		}
		if c := a.wait(t); c.WRID != id || c.Status != verbs.StatusWRFlushed {
			t.Errorf("%+v", c)
		}
	}

	init.Type = verbs.UC
	init.SendCQ, init.RecvCQ = a.cq, a.cq
	if _, err := a.pd.CreateQP(init); err == nil {
		t.Error("the mode with UC is taken")
	}
}
