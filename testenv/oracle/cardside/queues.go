// SPDX-License-Identifier: Apache-2.0

package cardside

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload/queue"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/oracle"
	"github.com/softroce/softroce-xdp/testenv/oracle/translate"
)

// poller is a completion queue that is polled over and over again.
type poller struct{ q *queue.CQ }

// NewCQ makes a completion queue.
func (s *Side) NewCQ(_ context.Context, depth int) (oracle.CQ, error) {
	q, err := s.dev.CreateCQ(depth)
	return poller{q}, err
}

func (c poller) Destroy(context.Context) error { return c.q.Destroy() }

func (c poller) Poll(ctx context.Context, n int, wait time.Duration) ([]oracle.Completion, error) {
	return translate.Poll(ctx, busy(c), n, wait)
}

// busy is the translate.Poller of a queue.
type busy poller

func (c busy) Poll(out []verbs.Completion) int { return c.q.Poll(out) }

// pause is how long Wait waits before the next Poll.
const pause = 50 * time.Microsecond

func (c busy) Wait(ctx context.Context, _ bool) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return c.q.Err()
	}
}

type sharedQueue struct {
	s *Side
	q *queue.SRQ
}

func (d domain) NewSRQ(_ context.Context, depth int) (oracle.SRQ, error) {
	q, err := d.s.dev.CreateSRQ(d.pd, depth, 1)
	if err != nil {
		return nil, err
	}
	s := &sharedQueue{d.s, q}
	d.s.mu.Lock()
	d.s.srqs[s] = true
	d.s.mu.Unlock()
	return s, nil
}

func (s *sharedQueue) Arm(_ context.Context, limit int) error { return s.q.SetLimit(limit) }

func (s *sharedQueue) Destroy(context.Context) error {
	s.s.mu.Lock()
	delete(s.s.srqs, s)
	s.s.mu.Unlock()
	return s.q.Destroy()
}

func (s *sharedQueue) PostRecv(_ context.Context, wrs ...oracle.RecvWR) error {
	return translate.PostRecv(s.q.PostRecv, wrs)
}

// AsyncEvent returns the next event of a shared receive queue, or nil when wait has passed.
func (s *Side) AsyncEvent(ctx context.Context, wait time.Duration) (*oracle.AsyncEvent, error) {
	for deadline := time.Now().Add(wait); ; {
		s.mu.Lock()
		for q := range s.srqs {
			if q.q.Events().LimitReached() {
				s.mu.Unlock()
				return &oracle.AsyncEvent{Type: oracle.EventSRQLimit, SRQ: q}, nil
			}
		}
		s.mu.Unlock()
		if time.Now().After(deadline) {
			return nil, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

type queuePair struct {
	translate.Pair
	q *queue.QP
}

var errOtherSide = errors.New("the completion queues of a QP must be of the same side")

func (d domain) NewQP(_ context.Context, c oracle.QPConfig) (oracle.QP, error) {
	send, ok1 := c.SendCQ.(poller)
	recv, ok2 := c.RecvCQ.(poller)
	if !ok1 || !ok2 {
		return nil, errOtherSide
	}
	init := queue.QPInit{
		Type: translate.Types[c.Service], PD: d.pd, SendCQ: send.q, RecvCQ: recv.q, MaxSend: c.SendWR, MaxRecv: c.RecvWR,
		MaxSendSGE: max(1, c.SendSGE), MaxRecvSGE: max(1, c.RecvSGE), MaxInline: c.Inline,
	}
	if c.SRQ != nil {
		init.SRQ = c.SRQ.(*sharedQueue).q
	}
	q, err := d.s.dev.CreateQP(init)
	if err != nil {
		return nil, err
	}
	return &queuePair{translate.Pair{Q: q, Addr: d.s.Addr}, q}, nil
}

func (q *queuePair) QPN() uint32                   { return q.q.QPN() }
func (q *queuePair) Destroy(context.Context) error { return q.q.Destroy() }

// send translates a work request, with the address handle of this queue pair.
func (q *queuePair) send(ctx context.Context, wr oracle.SendWR) (out *verbs.SendWR, err error) {
	var made *queue.AH
	if wr.UD != nil {
		a, ok := wr.UD.AH.(*addressHandle)
		if !ok {
			return nil, errOtherSide
		}
		if made, err = a.of(q); err != nil {
			return nil, err
		}
	}
	return translate.SendWR(ctx, wr, func(oracle.AH) verbs.AH { return made })
}

func (q *queuePair) PostSend(ctx context.Context, wrs ...oracle.SendWR) error {
	for _, wr := range wrs {
		out, err := q.send(ctx, wr)
		if err == nil {
			err = q.q.PostSend(out)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (q *queuePair) PostRecv(_ context.Context, wrs ...oracle.RecvWR) error {
	return translate.PostRecv(q.q.PostRecv, wrs)
}

// Run sends messages like r.WR, r.Depth of them at a time.
func (q *queuePair) Run(ctx context.Context, r oracle.Run) (oracle.RunResult, error) {
	r.WR.Unsignaled = false
	first, err := q.send(ctx, r.WR)
	if err != nil {
		return oracle.RunResult{}, err
	}
	cq, ok := r.CQ.(poller)
	if !ok {
		return oracle.RunResult{}, errOtherSide
	}
	return translate.Send(ctx, q.q, busy(cq), r, first)
}

// RunRecv takes the messages of the peer's Run.
func (q *queuePair) RunRecv(ctx context.Context, r oracle.Run) (oracle.RunResult, error) {
	cq, ok := r.CQ.(poller)
	if !ok {
		return oracle.RunResult{}, fmt.Errorf("RunRecv: %w", errOtherSide)
	}
	return translate.Receive(ctx, q.q, busy(cq), r)
}
