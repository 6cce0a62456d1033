// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// exchange is one case on a connected link. Message i lies in slot i of its region, with guard
// bytes on both sides; every slot has its own pattern.
type exchange struct {
	Case
	from, to *end
	seed     uint64
}

// wait is how long completions may take; impaired links wait for timeouts now and then.
const wait = 40 * time.Second

func (x *exchange) run(ctx context.Context) error {
	if x.Op == verbs.OpLocalInv {
		return x.localInvalidate(ctx)
	}
	if x.Op == verbs.OpSendInv || x.Op == verbs.OpBindWindow {
		if err := x.bindWindow(ctx); err != nil {
			return err
		}
	}
	if err := x.prepare(); err != nil {
		return err
	}
	if err := x.receive(); err != nil {
		return err
	}
	if err := postSend(x.from.qp, x.requests()...); err != nil {
		return err
	}
	if err := x.sent(ctx); err != nil {
		return err
	}
	if err := x.received(ctx); err != nil {
		return err
	}
	if err := x.check(); err != nil {
		return err
	}
	if x.Op == verbs.OpBindWindow {
		return x.unbindWindow(ctx)
	}
	return nil
}

// stride is the distance of slots: a message with its guards, at a multiple of 8 for atomics.
func (x *exchange) stride() int { return (x.room() + 2*guard + 7) &^ 7 }

// room is what a message takes at the receiver.
func (x *exchange) room() int {
	if x.Service == verbs.UD {
		return verbs.GRHLen + x.Size
	}
	return x.Size
}

// slot is where message i begins.
func (x *exchange) slot(i int) int { return i*x.stride() + guard }

func (x *exchange) data(i int) uint64 { return x.seed + uint64(i) + 1 }

// source and sink are where the bytes of the case come from and go to. Atomics act upon the
// responder's source and bring the old value to the requester's sink.
func (x *exchange) source() verbs.DM {
	if x.Op == verbs.OpRead || atomic(x.Op) {
		return x.to.source
	}
	return x.from.source
}

func (x *exchange) sink() verbs.DM {
	if x.Op == verbs.OpRead || atomic(x.Op) {
		return x.from.sink
	}
	return x.to.sink
}

// prepare fills the slots of the source, and the sink with a pattern that no message has.
func (x *exchange) prepare() error {
	total := x.Count * x.stride()
	if total > region || x.Count > maxCount {
		return fmt.Errorf("%d messages of %d bytes do not fit the region", x.Count, x.Size)
	}
	if err := fill(x.sink(), 0, total, x.seed, 0); err != nil {
		return err
	}
	for i := range x.Count {
		if err := fill(x.source(), x.slot(i), x.Size, x.data(i), 0); err != nil {
			return err
		}
	}
	return nil
}

// consumes reports whether a message takes a receive request, and whether its bytes go there.
func consumes(op verbs.Op) (recv, bytes bool) {
	switch op {
	case verbs.OpSend, verbs.OpSendImm, verbs.OpSendInv:
		return true, true
	case verbs.OpWriteImm:
		return true, false
	}
	return false, false
}

func (x *exchange) receive() error {
	recv, bytes := consumes(x.Op)
	if !recv {
		return nil
	}
	wrs := make([]verbs.RecvWR, x.Count)
	for i := range wrs {
		wrs[i].ID = uint64(i)
		if bytes {
			wrs[i].SGL = piece(x.sink(), x.slot(i), x.room())
		}
	}
	if x.SRQ {
		return postRecv(x.to.srq, wrs...)
	}
	return postRecv(x.to.qp, wrs...)
}

// compare and swap operands of message i: it finds what it expects if i is even.
func (x *exchange) operands(i int) (old, compareAdd, swap uint64) {
	var b [8]byte
	fillPattern(b[:], x.data(i), 0)
	old = binary.LittleEndian.Uint64(b[:])
	if x.Op == verbs.OpFetchAdd {
		return old, 0xFEDCBA9876543210 + uint64(i), 0
	}
	return old, old + uint64(i%2), ^old
}

// requests are the work requests of the case.
func (x *exchange) requests() []verbs.SendWR {
	wrs := make([]verbs.SendWR, x.Count)
	for i := range wrs {
		wr := verbs.SendWR{ID: uint64(i), Op: x.Op, Imm: x.imm(i)}
		local := x.source()
		if x.Op == verbs.OpRead || atomic(x.Op) {
			local = x.sink()
		}
		if x.Size > 0 {
			wr.SGL = piece(local, x.slot(i), x.Size)
		}
		switch x.Op {
		case verbs.OpWrite, verbs.OpWriteImm:
			wr.RemoteAddr, wr.RKey = x.sink().VA()+uint64(x.slot(i)), x.sink().RKey()
		case verbs.OpBindWindow: // through the window that the responder has bound
			wr.Op = verbs.OpWrite
			wr.RemoteAddr, wr.RKey = x.sink().VA()+uint64(x.slot(i)), x.to.windowKey
		case verbs.OpRead, verbs.OpCompareSwap, verbs.OpFetchAdd:
			wr.RemoteAddr, wr.RKey = x.source().VA()+uint64(x.slot(i)), x.source().RKey()
		case verbs.OpSendInv:
			// Only the last one takes the window away: a window can be invalidated once.
			wr.InvKey = x.to.windowKey
			if i < x.Count-1 {
				wr.Op = verbs.OpSend
			}
		}
		if atomic(x.Op) {
			_, wr.Compare, wr.Swap = x.operands(i)
			wr.Add = wr.Compare
		}
		if x.Service == verbs.UD {
			wr.AH, wr.RemoteQPN, wr.RemoteQKey = x.from.ah, x.to.local.QPN, x.to.local.QKey
		}
		wrs[i] = wr
	}
	return wrs
}

func (x *exchange) imm(i int) uint32 { return uint32(x.seed>>16)<<8 | uint32(i) | 0x80000000 }

// poll wants n successful completions in the order of their requests.
func poll(ctx context.Context, who *end, cq verbs.CQ, what string, n int) ([]verbs.Completion, error) {
	got, err := pollFor(ctx, who, cq, what, n, wait)
	if err == nil && len(got) != n {
		err = fmt.Errorf("%s: %d of %d %s completions after %v", who.side.Name(), len(got), n, what, wait)
	}
	return got, err
}

// pollFor is poll that takes fewer when wait has passed.
func pollFor(ctx context.Context, who *end, cq verbs.CQ, what string, n int, wait time.Duration) ([]verbs.Completion, error) {
	got, err := collect(ctx, cq, n, wait)
	if err != nil {
		return nil, err
	}
	for i, c := range got {
		if c.Status != verbs.StatusSuccess {
			return nil, &statusError{fmt.Sprintf("%s: %s %d of %d", who.side.Name(), what, c.WRID, n), c.Status}
		}
		if c.WRID != uint64(i) || c.QPN != who.qp.QPN() {
			return nil, fmt.Errorf("%s: completion %d of a %s has ID %d and QPN %d, want QPN %d",
				who.side.Name(), i, what, c.WRID, c.QPN, who.qp.QPN())
		}
	}
	return got, nil
}

// statusError is a request that completed without success.
type statusError struct {
	request string
	status  verbs.Status
}

func (e *statusError) Error() string { return fmt.Sprintf("%s: %v", e.request, e.status) }

// kind is the operation whose completions those of op equal. libibverbs has one kind for all SENDs and
// one for all WRITEs.
func kind(op verbs.Op) verbs.Op {
	switch op {
	case verbs.OpSendImm, verbs.OpSendInv:
		return verbs.OpSend
	case verbs.OpWriteImm:
		return verbs.OpWrite
	}
	return op
}

func (x *exchange) sent(ctx context.Context) error {
	got, err := poll(ctx, x.from, x.from.sendCQ, "request", x.Count)
	want := kind(x.Op)
	if x.Op == verbs.OpBindWindow {
		want = verbs.OpWrite // through the window
	}
	for i, c := range got {
		if kind(c.Op) != want {
			return fmt.Errorf("completion of request %d is of %v, want %v", i, c.Op, want)
		}
	}
	return err
}

// received checks the receive completions of the responder.
func (x *exchange) received(ctx context.Context) error {
	recv, bytes := consumes(x.Op)
	if !recv {
		return nil
	}
	got, err := x.takeReceives(ctx)
	if err != nil {
		return err
	}
	for i, c := range got {
		op := verbs.OpRecv
		if !bytes {
			op = verbs.OpRecvWriteImm
		}
		wantLen := x.room()
		imm := x.Op == verbs.OpSendImm || x.Op == verbs.OpWriteImm
		inv := x.Op == verbs.OpSendInv && i == x.Count-1
		switch {
		case c.Op != op:
			return fmt.Errorf("receive %d is of %v, want %v", i, c.Op, op)
		case int(c.Bytes) != wantLen:
			return fmt.Errorf("receive %d has %d bytes, want %d", i, c.Bytes, wantLen)
		case imm != c.HasImm || imm && c.Imm != x.imm(i):
			return fmt.Errorf("receive %d: immediate data %#x (with one: %v), want %#x (with one: %v)", i, c.Imm, c.HasImm, x.imm(i), imm)
		case inv != c.HasInv || inv && c.InvKey != x.to.windowKey:
			return fmt.Errorf("receive %d: invalidated key %#x (with one: %v), want %#x (with one: %v)", i, c.InvKey, c.HasInv, x.to.windowKey, inv)
		case x.Service == verbs.UD && (!c.HasGRH || c.SrcQP != x.from.qp.QPN()):
			return fmt.Errorf("receive %d: GRH %v from QPN %d, want QPN %d", i, c.HasGRH, c.SrcQP, x.from.qp.QPN())
		}
	}
	return nil
}

// errLost is a message that an unreliable service did not bring.
var errLost = errors.New("lost on the way")

// unreliable is how long a message of UC or UD may be in flight. What a machine that is paused has
// not taken yet is not lost.
const unreliable = 20 * time.Second

// takeReceives polls the responder's completions.
func (x *exchange) takeReceives(ctx context.Context) ([]verbs.Completion, error) {
	if x.Service == verbs.RC {
		return poll(ctx, x.to, x.to.recvCQ, "receive", x.Count)
	}
	got, err := pollFor(ctx, x.to, x.to.recvCQ, "receive", x.Count, unreliable)
	if err == nil && len(got) < x.Count {
		err = fmt.Errorf("%s: %d of %d messages after %v: %w", x.to.side.Name(), len(got), x.Count, unreliable, errLost)
	}
	return got, err
}

// check compares the sink, guards included, and the memory that atomics have changed.
func (x *exchange) check() error {
	for i := range x.Count {
		at, lead := x.slot(i), 0
		if x.Service == verbs.UD {
			lead = verbs.GRHLen // the network header is the stack's
		}
		if err := x.arrived(i, at+lead); err != nil {
			return err
		}
		for side, off := range map[string]int{"before": at - guard, "behind": at + x.room()} {
			m, err := check(x.sink(), off, guard, x.seed, uint64(off))
			if err == nil && m.Bad > 0 {
				err = fmt.Errorf("message %d: %d bytes %s it were overwritten, the first at %d", i, m.Bad, side, m.First)
			}
			if err != nil {
				return err
			}
		}
		if atomic(x.Op) {
			if err := x.changed(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// arrived compares a message's bytes. A UC WRITE completes when it has left, so its bytes may
// take their time.
func (x *exchange) arrived(i, off int) error {
	for deadline := time.Now().Add(unreliable); ; time.Sleep(2 * time.Millisecond) {
		m, err := check(x.sink(), off, x.Size, x.data(i), 0)
		if err != nil || m.Bad == 0 {
			return err
		}
		switch {
		case x.Service == verbs.UC && x.Op == verbs.OpWrite && time.Now().Before(deadline):
		case x.Service == verbs.UC && x.Op == verbs.OpWrite: // some of its packets may have arrived
			return fmt.Errorf("message %d: %d of %d bytes after %v: %w", i, x.Size-m.Bad, x.Size, unreliable, errLost)
		default:
			return fmt.Errorf("message %d: %d of %d bytes are wrong, the first at %d", i, m.Bad, x.Size, m.First)
		}
	}
}

// changed looks at the value that an atomic has left behind.
func (x *exchange) changed(i int) error {
	old, compareAdd, swap := x.operands(i)
	want := old + compareAdd
	if x.Op == verbs.OpCompareSwap {
		want = swap
		if compareAdd != old {
			want = old
		}
	}
	var b [8]byte
	if _, err := x.source().ReadAt(b[:], int64(x.slot(i))); err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint64(b[:]); got != want {
		return fmt.Errorf("atomic %d left %#x behind, want %#x", i, got, want)
	}
	return nil
}
