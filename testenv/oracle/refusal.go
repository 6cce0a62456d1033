// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Refusal is a request that the responder must refuse, and how both ends learn of it. The
// responder's memory must stay as it was.
type Refusal struct {
	Name string
	// request is what from posts against to.
	request func(from, to *end) verbs.SendWR
	recv    int // bytes of the receive request that the responder posts first; 0: none
	rights  verbs.Access

	Sender   []verbs.Status // any of these will do
	Receiver []verbs.Status // possible statuses of the receive request; none: it is not completed
}

// ErrNotSent says that the requester itself refused a request, so the responder was not asked.
var ErrNotSent = errors.New("the requester refuses to send this")

const refusedLen = 3000

// Refusals are those that the specification leaves no choice about (IBTA 9.7.5.2, table 58).
func Refusals() []Refusal {
	// write is a WRITE that is right, except for a change.
	write := func(change func(wr *verbs.SendWR, to *end)) func(from, to *end) verbs.SendWR {
		return func(from, to *end) verbs.SendWR {
			wr := verbs.SendWR{Op: verbs.OpWrite, SGL: piece(from.source, 0, refusedLen), RemoteAddr: to.sink.VA(), RKey: to.sink.RKey()}
			change(&wr, to)
			return wr
		}
	}
	noAccess, invalid := []verbs.Status{verbs.StatusRemoteAccess}, []verbs.Status{verbs.StatusRemoteInvalidRequest}
	const all, noWrite, noRead = peerRights, verbs.AccessRemoteRead, verbs.AccessRemoteWrite
	return []Refusal{
		{Name: "write with a wrong key", rights: all, Sender: noAccess, request: write(func(wr *verbs.SendWR, _ *end) {
			wr.RKey ^= 0x5A00
		})},
		{Name: "write beyond the region", rights: all, Sender: noAccess, request: write(func(wr *verbs.SendWR, _ *end) {
			wr.RemoteAddr += region - refusedLen + 1
		})},
		{Name: "write before the region", rights: all, Sender: noAccess, request: write(func(wr *verbs.SendWR, _ *end) {
			wr.RemoteAddr--
		})},
		{Name: "write at the end of addresses", rights: all, Sender: noAccess, request: write(func(wr *verbs.SendWR, _ *end) {
			wr.RemoteAddr = ^uint64(0) - 10
		})},
		{Name: "write to a queue pair without the right", rights: noWrite, Sender: invalid, request: write(func(*verbs.SendWR, *end) {})},
		{Name: "read from a queue pair without the right", rights: noRead, Sender: invalid, request: write(func(wr *verbs.SendWR, to *end) {
			wr.Op, wr.RemoteAddr, wr.RKey = verbs.OpRead, to.source.VA(), to.source.RKey()
		})},
		{Name: "read with a wrong key", rights: all, Sender: noAccess, request: write(func(wr *verbs.SendWR, _ *end) {
			wr.Op = verbs.OpRead
			wr.RKey ^= 0x5A00
		})},
		{Name: "atomic at an odd address", rights: all, Sender: invalid, request: write(func(wr *verbs.SendWR, _ *end) {
			wr.Op, wr.SGL[0].Len, wr.RemoteAddr = verbs.OpFetchAdd, 8, wr.RemoteAddr+4
		})},
		{Name: "send longer than the receive", rights: all, recv: refusedLen - 1, request: func(from, _ *end) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpSend, SGL: piece(from.source, 0, refusedLen)}
		},
			// The second of each is what rxe (6.12) makes of it.
			Sender:   []verbs.Status{verbs.StatusRemoteInvalidRequest, verbs.StatusRemoteOperation},
			Receiver: []verbs.Status{verbs.StatusLocalLength, verbs.StatusLocalQPOperation}},
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
	if b.ends, err = connectPair(b.A, b.B, plain, r.rights, nil); err != nil {
		return err
	}
	b.link, b.open = Link{}, true // no case may go on with it
	from, to := b.ends[0], b.ends[1]
	if fromB {
		from, to = to, from
	}
	return r.run(ctx, from, to)
}

// run posts the request, and compares the completions and the responder's memory.
func (r *Refusal) run(ctx context.Context, from, to *end) error {
	const before, message = 77, 78
	if err := errors.Join(fill(from.source, 0, refusedLen, message, 0), fill(to.sink, 0, region, before, 0)); err != nil {
		return err
	}
	if r.recv > 0 {
		if err := postRecv(to.qp, verbs.RecvWR{SGL: piece(to.sink, 0, r.recv)}); err != nil {
			return err
		}
	}
	if err := postSend(from.qp, r.request(from, to)); errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	} else if err != nil {
		return err
	}
	if err := ended(ctx, from, from.sendCQ, r.Sender); err != nil {
		return err
	}
	if err := inError(from); err != nil {
		return err
	}
	off := 0
	if len(r.Receiver) > 0 {
		if err := ended(ctx, to, to.recvCQ, r.Receiver); err != nil {
			return err
		}
		off = r.recv // whole packets that fitted may have been written
	}
	m, err := check(to.sink, off, region-off, before, uint64(off))
	if err == nil && m.Bad > 0 {
		err = fmt.Errorf("%s: %d bytes were overwritten, the first at %d", to.side.Name(), m.Bad, off+m.First)
	}
	return err
}

// inError wants the queue pair to be in ERR.
func inError(e *end) error {
	a, err := e.qp.Query()
	if err == nil && a.State != verbs.StateErr {
		err = fmt.Errorf("%s: the queue pair is in state %v, want %v", e.side.Name(), a.State, verbs.StateErr)
	}
	return err
}

// ended wants one completion of a status.
func ended(ctx context.Context, e *end, cq verbs.CQ, want []verbs.Status) error {
	got, err := collect(ctx, cq, 1, wait)
	if err != nil {
		return err
	}
	if len(got) != 1 || !slices.Contains(want, got[0].Status) {
		return fmt.Errorf("%s: completions %+v, want one of %v", e.side.Name(), got, want)
	}
	return nil
}
