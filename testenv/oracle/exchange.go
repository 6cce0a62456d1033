// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
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
	if x.Op == LocalInv {
		return x.localInvalidate(ctx)
	}
	if x.Op == SendInv || x.Op == BindMW {
		if err := x.bindWindow(ctx); err != nil {
			return err
		}
	}
	if err := x.prepare(ctx); err != nil {
		return err
	}
	if err := x.receive(ctx); err != nil {
		return err
	}
	if err := x.from.qp.PostSend(ctx, x.requests()...); err != nil {
		return err
	}
	if err := x.sent(ctx); err != nil {
		return err
	}
	if err := x.received(ctx); err != nil {
		return err
	}
	if err := x.check(ctx); err != nil {
		return err
	}
	if x.Op == BindMW {
		return x.unbindWindow(ctx)
	}
	return nil
}

// stride is the distance of slots: a message with its guards, at a multiple of 8 for atomics.
func (x *exchange) stride() int { return (x.room() + 2*guard + 7) &^ 7 }

// room is what a message takes at the receiver.
func (x *exchange) room() int {
	if x.Service == UD {
		return grh + x.Size
	}
	return x.Size
}

// slot is where message i begins.
func (x *exchange) slot(i int) int { return i*x.stride() + guard }

func (x *exchange) data(i int) uint64 { return x.seed + uint64(i) + 1 }

// source and sink are where the bytes of the case come from and go to. Atomics act upon the
// responder's source and bring the old value to the requester's sink.
func (x *exchange) source() MR {
	if x.Op == Read || x.Op.atomic() {
		return x.to.source
	}
	return x.from.source
}

func (x *exchange) sink() MR {
	if x.Op == Read || x.Op.atomic() {
		return x.from.sink
	}
	return x.to.sink
}

// prepare fills the slots of the source, and the sink with a pattern that no message has.
func (x *exchange) prepare(ctx context.Context) error {
	total := x.Count * x.stride()
	if total > region || x.Count > maxCount {
		return fmt.Errorf("%d messages of %d bytes do not fit the region", x.Count, x.Size)
	}
	if err := x.sink().Fill(ctx, 0, total, x.seed, 0); err != nil {
		return err
	}
	for i := range x.Count {
		if err := x.source().Fill(ctx, x.slot(i), x.Size, x.data(i), 0); err != nil {
			return err
		}
	}
	return nil
}

// consumes reports whether a message takes a receive request, and whether its bytes go there.
func (o Op) consumes() (recv, bytes bool) {
	switch o {
	case Send, SendImm, SendInv:
		return true, true
	case WriteImm:
		return true, false
	}
	return false, false
}

func (x *exchange) receive(ctx context.Context) error {
	recv, bytes := x.Op.consumes()
	if !recv {
		return nil
	}
	wrs := make([]RecvWR, x.Count)
	for i := range wrs {
		wrs[i].ID = uint64(i)
		if bytes {
			wrs[i].SGEs = []SGE{{x.sink(), x.slot(i), x.room()}}
		}
	}
	if x.SRQ {
		return x.to.srq.PostRecv(ctx, wrs...)
	}
	return x.to.qp.PostRecv(ctx, wrs...)
}

// compare and swap operands of message i: it finds what it expects if i is even.
func (x *exchange) operands(i int) (old, compareAdd, swap uint64) {
	var b [8]byte
	FillPattern(b[:], x.data(i), 0)
	old = binary.LittleEndian.Uint64(b[:])
	if x.Op == FetchAdd {
		return old, 0xFEDCBA9876543210 + uint64(i), 0
	}
	return old, old + uint64(i%2), ^old
}

// requests are the work requests of the case.
func (x *exchange) requests() []SendWR {
	wrs := make([]SendWR, x.Count)
	for i := range wrs {
		wr := SendWR{ID: uint64(i), Op: x.Op, Imm: x.imm(i)}
		local := x.source()
		if x.Op == Read || x.Op.atomic() {
			local = x.sink()
		}
		if x.Size > 0 {
			wr.SGEs = []SGE{{local, x.slot(i), x.Size}}
		}
		switch x.Op {
		case Write, WriteImm:
			wr.RemoteAddr, wr.RKey = x.sink().Addr()+uint64(x.slot(i)), x.sink().RKey()
		case BindMW: // through the window that the responder has bound
			wr.Op = Write
			wr.RemoteAddr, wr.RKey = x.sink().Addr()+uint64(x.slot(i)), x.to.windowKey
		case Read, CompareSwap, FetchAdd:
			wr.RemoteAddr, wr.RKey = x.source().Addr()+uint64(x.slot(i)), x.source().RKey()
		case SendInv:
			// Only the last one takes the window away: a window can be invalidated once.
			wr.Inv = x.to.windowKey
			if i < x.Count-1 {
				wr.Op = Send
			}
		}
		if x.Op.atomic() {
			_, wr.CompareAdd, wr.Swap = x.operands(i)
		}
		if x.Service == UD {
			wr.UD = &UDDest{AH: x.from.ah, QPN: x.to.qp.QPN(), QKey: udQKey}
		}
		wrs[i] = wr
	}
	return wrs
}

func (x *exchange) imm(i int) uint32 { return uint32(x.seed>>16)<<8 | uint32(i) | 0x80000000 }

// poll wants n successful completions in the order of their requests.
func poll(ctx context.Context, who *end, cq CQ, what string, n int) ([]Completion, error) {
	got, err := pollFor(ctx, who, cq, what, n, wait)
	if err == nil && len(got) != n {
		err = fmt.Errorf("%s: %d of %d %s completions after %v", who.side.Name(), len(got), n, what, wait)
	}
	return got, err
}

// pollFor is poll that takes fewer when wait has passed.
func pollFor(ctx context.Context, who *end, cq CQ, what string, n int, wait time.Duration) ([]Completion, error) {
	got, err := cq.Poll(ctx, n, wait)
	if err != nil {
		return nil, err
	}
	for i, c := range got {
		if c.Status != Success {
			return nil, fmt.Errorf("%s: %s %d of %d: %v", who.side.Name(), what, c.ID, n, c.Status)
		}
		if c.ID != uint64(i) || c.QPN != who.qp.QPN() {
			return nil, fmt.Errorf("%s: completion %d of a %s has ID %d and QPN %d, want QPN %d",
				who.side.Name(), i, what, c.ID, c.QPN, who.qp.QPN())
		}
	}
	return got, nil
}

var sendCompletion = map[Op]WCOp{
	Send: WCSend, SendImm: WCSend, SendInv: WCSend, Write: WCWrite, WriteImm: WCWrite, BindMW: WCWrite,
	Read: WCRead, CompareSwap: WCCompareSwap, FetchAdd: WCFetchAdd,
}

func (x *exchange) sent(ctx context.Context) error {
	got, err := poll(ctx, x.from, x.from.sendCQ, "request", x.Count)
	for i, c := range got {
		if want := sendCompletion[x.Op]; c.Op != want {
			return fmt.Errorf("completion of request %d is of kind %d, want %d", i, c.Op, want)
		}
	}
	return err
}

// received checks the receive completions of the responder.
func (x *exchange) received(ctx context.Context) error {
	recv, bytes := x.Op.consumes()
	if !recv {
		return nil
	}
	got, err := x.takeReceives(ctx)
	if err != nil {
		return err
	}
	for i, c := range got {
		kind := WCRecv
		if !bytes {
			kind = WCRecvImm
		}
		wantLen := x.room()
		imm := x.Op == SendImm || x.Op == WriteImm
		inv := x.Op == SendInv && i == x.Count-1
		switch {
		case c.Op != kind:
			return fmt.Errorf("receive %d is of kind %d, want %d", i, c.Op, kind)
		case c.Len != wantLen:
			return fmt.Errorf("receive %d has %d bytes, want %d", i, c.Len, wantLen)
		case imm != (c.Imm != nil) || imm && *c.Imm != x.imm(i):
			return fmt.Errorf("receive %d: immediate data %s, want %#x (with one: %v)", i, hex32(c.Imm), x.imm(i), imm)
		case inv != (c.Inv != nil) || inv && *c.Inv != x.to.windowKey:
			return fmt.Errorf("receive %d: invalidated key %s, want %#x (with one: %v)", i, hex32(c.Inv), x.to.windowKey, inv)
		case x.Service == UD && (!c.GRH || c.SrcQP != x.from.qp.QPN()):
			return fmt.Errorf("receive %d: GRH %v from QPN %d, want QPN %d", i, c.GRH, c.SrcQP, x.from.qp.QPN())
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
func (x *exchange) takeReceives(ctx context.Context) ([]Completion, error) {
	if x.Service == RC {
		return poll(ctx, x.to, x.to.recvCQ, "receive", x.Count)
	}
	got, err := pollFor(ctx, x.to, x.to.recvCQ, "receive", x.Count, unreliable)
	if err == nil && len(got) < x.Count {
		err = fmt.Errorf("%s: %d of %d messages after %v: %w", x.to.side.Name(), len(got), x.Count, unreliable, errLost)
	}
	return got, err
}

func hex32(v *uint32) string {
	if v == nil {
		return "none"
	}
	return fmt.Sprintf("%#x", *v)
}

// check compares the sink, guards included, and the memory that atomics have changed.
func (x *exchange) check(ctx context.Context) error {
	for i := range x.Count {
		at, lead := x.slot(i), 0
		if x.Service == UD {
			lead = grh // the network header is the stack's
		}
		if err := x.arrived(ctx, i, at+lead); err != nil {
			return err
		}
		for side, off := range map[string]int{"before": at - guard, "behind": at + x.room()} {
			m, err := x.sink().Check(ctx, off, guard, x.seed, uint64(off))
			if err == nil && m.Bad > 0 {
				err = fmt.Errorf("message %d: %d bytes %s it were overwritten, the first at %d", i, m.Bad, side, m.First)
			}
			if err != nil {
				return err
			}
		}
		if x.Op.atomic() {
			if err := x.changed(ctx, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// arrived compares a message's bytes. A UC WRITE completes when it has left, so its bytes may
// take their time.
func (x *exchange) arrived(ctx context.Context, i, off int) error {
	for deadline := time.Now().Add(unreliable); ; time.Sleep(2 * time.Millisecond) {
		m, err := x.sink().Check(ctx, off, x.Size, x.data(i), 0)
		if err != nil || m.Bad == 0 {
			return err
		}
		switch {
		case x.Service == UC && x.Op == Write && time.Now().Before(deadline):
		case x.Service == UC && x.Op == Write: // some of its packets may have arrived
			return fmt.Errorf("message %d: %d of %d bytes after %v: %w", i, x.Size-m.Bad, x.Size, unreliable, errLost)
		default:
			return fmt.Errorf("message %d: %d of %d bytes are wrong, the first at %d", i, m.Bad, x.Size, m.First)
		}
	}
}

// changed looks at the value that an atomic has left behind.
func (x *exchange) changed(ctx context.Context, i int) error {
	old, compareAdd, swap := x.operands(i)
	want := old + compareAdd
	if x.Op == CompareSwap {
		want = swap
		if compareAdd != old {
			want = old
		}
	}
	b, err := x.source().Peek(ctx, x.slot(i), 8)
	if err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint64(b); got != want {
		return fmt.Errorf("atomic %d left %#x behind, want %#x", i, got, want)
	}
	return nil
}

// nextKey raises the key bits of a window's rkey.
func nextKey(rkey uint32) uint32 { return rkey&^0xFF | (rkey+1)&0xFF }

// bindWindow has the responder bind its window to the slots of the sink, under a new key.
func (x *exchange) bindWindow(ctx context.Context) error {
	key := nextKey(x.to.windowKey)
	err := x.to.bind(ctx, Bind{MW: x.to.window, MR: x.sink(), Len: max(1, x.Count*x.stride()), Rights: RemoteWrite | RemoteRead, RKey: key})
	if err != nil {
		return fmt.Errorf("%s: bind the window: %w", x.to.side.Name(), err)
	}
	x.to.windowKey = key
	return nil
}

func (e *end) bind(ctx context.Context, b Bind) error {
	return e.local(ctx, SendWR{Op: BindMW, Bind: &b}, WCBindMW)
}

// local posts a request that stays on its side.
func (e *end) local(ctx context.Context, wr SendWR, kind WCOp) error {
	if err := e.qp.PostSend(ctx, wr); err != nil {
		return err
	}
	got, err := poll(ctx, e, e.sendCQ, wr.Op.String(), 1)
	if err == nil && got[0].Op != kind {
		err = fmt.Errorf("%v completed as kind %d, want %d", wr.Op, got[0].Op, kind)
	}
	return err
}

// unbindWindow takes the window away from its bytes: one in use cannot be bound again.
func (x *exchange) unbindWindow(ctx context.Context) error {
	return x.to.local(ctx, SendWR{Op: LocalInv, Inv: x.to.windowKey}, WCLocalInv)
}

// localInvalidate binds a window at the responder, and takes it away there; it must then be
// bindable again.
func (x *exchange) localInvalidate(ctx context.Context) error {
	for range x.Count {
		if err := x.bindWindow(ctx); err != nil {
			return err
		}
		if err := x.unbindWindow(ctx); err != nil {
			return err
		}
	}
	return nil
}
