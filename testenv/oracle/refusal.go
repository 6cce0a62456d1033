// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
)

// Refusal is a request that the responder must refuse, and how both ends learn of it. The
// responder's memory must stay as it was.
type Refusal struct {
	Name string
	// Do posts the request at from against to.
	request func(from, to *end) SendWR
	recv    int // bytes of the receive request that the responder posts first; 0: none
	rights  Access

	Sender   []Status // any of these will do
	Receiver []Status // of the receive request; none: it is not completed at all
}

// ErrNotSent says that the requester itself refused a request, so the responder was not asked.
var ErrNotSent = errors.New("the requester refuses to send this")

const refusedLen = 3000

// Refusals are those that the specification leaves no choice about (IBTA 9.7.5.2, table 58).
func Refusals() []Refusal {
	write := func(from, to *end) SendWR {
		return SendWR{Op: Write, SGEs: []SGE{{from.source, 0, refusedLen}}, RemoteAddr: to.sink.Addr(), RKey: to.sink.RKey()}
	}
	change := func(f func(wr *SendWR, to *end)) func(from, to *end) SendWR {
		return func(from, to *end) SendWR {
			wr := write(from, to)
			f(&wr, to)
			return wr
		}
	}
	all := AllRights &^ MWBind
	return []Refusal{
		{Name: "write with a wrong key", rights: all, Sender: []Status{RemoteAccessError}, request: change(func(wr *SendWR, to *end) { wr.RKey ^= 0x5A00 })},
		{Name: "write beyond the region", rights: all, Sender: []Status{RemoteAccessError}, request: change(func(wr *SendWR, to *end) { wr.RemoteAddr += region - refusedLen + 1 })},
		{Name: "write before the region", rights: all, Sender: []Status{RemoteAccessError}, request: change(func(wr *SendWR, to *end) { wr.RemoteAddr-- })},
		{Name: "write at the end of addresses", rights: all, Sender: []Status{RemoteAccessError}, request: change(func(wr *SendWR, to *end) { wr.RemoteAddr = ^uint64(0) - 10 })},
		{Name: "write to a queue pair without the right", rights: RemoteRead, Sender: []Status{RemoteInvalidRequest}, request: write},
		{Name: "read from a queue pair without the right", rights: RemoteWrite, Sender: []Status{RemoteInvalidRequest}, request: change(func(wr *SendWR, to *end) {
			wr.Op, wr.RemoteAddr, wr.RKey = Read, to.source.Addr(), to.source.RKey()
		})},
		{Name: "read with a wrong key", rights: all, Sender: []Status{RemoteAccessError}, request: change(func(wr *SendWR, to *end) { wr.Op = Read; wr.RKey ^= 0x5A00 })},
		{Name: "atomic at an odd address", rights: all, Sender: []Status{RemoteInvalidRequest}, request: change(func(wr *SendWR, to *end) {
			wr.Op, wr.SGEs[0].Len, wr.RemoteAddr = FetchAdd, 8, wr.RemoteAddr+4
		})},
		{Name: "send longer than the receive", rights: all, recv: refusedLen - 1, request: func(from, to *end) SendWR {
			return SendWR{Op: Send, SGEs: []SGE{{from.source, 0, refusedLen}}}
		},
			// The second of each is what rxe (6.12) makes of it.
			Sender:   []Status{RemoteInvalidRequest, RemoteOperationError},
			Receiver: []Status{LocalLengthError, LocalQPOperationError}},
	}
}

// Refuse runs one refusal on a link of its own, from A to B or back.
func (b *Bench) Refuse(ctx context.Context, r Refusal, fromB bool) (err error) {
	ctx, cancel := context.WithTimeout(ctx, CaseTimeout)
	defer cancel()
	if err := b.drop(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", r.Name, err)
		}
		err = errors.Join(err, b.drop())
	}()
	l := Link{Service: RC, PMTU: 1024}
	if b.ends, err = connectPair(ctx, b.A, b.B, l, r.rights); err != nil {
		return err
	}
	b.link, b.open = Link{}, true // no case may go on with it
	from, to := b.ends[0], b.ends[1]
	if fromB {
		from, to = to, from
	}
	const before, message = 77, 78
	if err := errors.Join(from.source.Fill(ctx, 0, refusedLen, message, 0), to.sink.Fill(ctx, 0, region, before, 0)); err != nil {
		return err
	}
	if r.recv > 0 {
		if err := to.qp.PostRecv(ctx, RecvWR{SGEs: []SGE{{to.sink, 0, r.recv}}}); err != nil {
			return err
		}
	}
	if err := from.qp.PostSend(ctx, r.request(from, to)); errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	} else if err != nil {
		return err
	}
	if err := ended(ctx, from, from.sendCQ, r.Sender); err != nil {
		return err
	}
	if s, err := from.qp.State(ctx); err != nil || s != Err {
		return fmt.Errorf("%s: the queue pair is in state %v, want %v (%w)", from.side.Name(), s, Err, err)
	}
	off := 0
	if len(r.Receiver) > 0 {
		if err := ended(ctx, to, to.recvCQ, r.Receiver); err != nil {
			return err
		}
		off = r.recv // whole packets that fitted may have been written
	}
	m, err := to.sink.Check(ctx, off, region-off, before, uint64(off))
	if err == nil && m.Bad > 0 {
		err = fmt.Errorf("%s: %d bytes were overwritten, the first at %d", to.side.Name(), m.Bad, off+m.First)
	}
	return err
}

// ended wants one completion of a status.
func ended(ctx context.Context, e *end, cq CQ, want []Status) error {
	got, err := cq.Poll(ctx, 1, wait)
	if err != nil {
		return err
	}
	if len(got) != 1 || !slices.Contains(want, got[0].Status) {
		return fmt.Errorf("%s: completions %+v, want one of %v", e.side.Name(), got, want)
	}
	return nil
}
