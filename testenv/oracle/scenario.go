// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Scenario is a course of events between a requester and a responder that no line of the table has.
type Scenario struct {
	Name string
	Run  func(ctx context.Context, from, to Side) error
	// ByEngine says that rxe (6.12) as requester does not always pass.
	ByEngine bool
}

// Scenarios are all of them, for a network without impairment.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "a write of no bytes needs no key", Run: noBytesNoKey},
		{Name: "receiver not ready at first", Run: notReady},
		{Name: "receiver never ready", Run: neverReady},
		{Name: "peer gone", Run: peerGone},
		{Name: "peer restarted, expecting PSNs of long ago", Run: func(ctx context.Context, from, to Side) error {
			return peerRestarts(ctx, from, to, -5000)
		}},
		// rxe takes an ACK beyond all that it sent as one for all that it sent (check_psn).
		{Name: "peer restarted, expecting PSNs to come", ByEngine: true, Run: func(ctx context.Context, from, to Side) error {
			return peerRestarts(ctx, from, to, 5000)
		}},
		{Name: "limit of a shared receive queue", Run: srqLimit},
		{Name: "many queue pairs", Run: manyQueuePairs},
		{Name: "many messages", Run: manyMessages},
	}
}

// onLink runs f on a link of its own.
func onLink(ctx context.Context, from, to Side, l Link, change func(*RTRAttr, *RTSAttr), f func(from, to *end) error) error {
	ends, err := connectChanged(ctx, from, to, l, AllRights&^MWBind, change)
	if err != nil {
		return err
	}
	err = f(ends[0], ends[1])
	for _, e := range ends {
		if cerr := e.close(ctx); cerr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", e.side.Name(), cerr))
		}
	}
	return err
}

var plain = Link{Service: RC, PMTU: 1024}

// hasFailed wants the first request to have ended so, and the queue pair to be in ERR.
func hasFailed(ctx context.Context, e *end, want Status) error {
	if err := ended(ctx, e, e.sendCQ, []Status{want}); err != nil {
		return err
	}
	s, err := e.qp.State(ctx)
	if err == nil && s != Err {
		err = fmt.Errorf("%s: the queue pair is in state %v, want %v", e.side.Name(), s, Err)
	}
	return err
}

// noBytesNoKey: IBTA 9.7.4.1.5.
func noBytesNoKey(ctx context.Context, a, b Side) error {
	return onLink(ctx, a, b, plain, nil, func(from, to *end) error {
		if err := from.qp.PostSend(ctx, SendWR{Op: Write, RemoteAddr: 0x123, RKey: 0x45678}); err != nil {
			return err
		}
		_, err := poll(ctx, from, from.sendCQ, "write", 1)
		return err
	})
}

// notReady posts the receive after the message, which arrives all the same.
func notReady(ctx context.Context, a, b Side) error {
	return onLink(ctx, a, b, plain, nil, func(from, to *end) error {
		const size, seed = 2000, 5
		if err := from.source.Fill(ctx, 0, size, seed, 0); err != nil {
			return err
		}
		if err := from.qp.PostSend(ctx, SendWR{Op: Send, SGEs: []SGE{{from.source, 0, size}}}); err != nil {
			return err
		}
		if got, err := from.sendCQ.Poll(ctx, 1, 100*time.Millisecond); err != nil || len(got) > 0 {
			return fmt.Errorf("completed without a receive: %+v (%w)", got, err)
		}
		if err := to.qp.PostRecv(ctx, RecvWR{SGEs: []SGE{{to.sink, 0, size}}}); err != nil {
			return err
		}
		for e, cq := range map[*end]CQ{from: from.sendCQ, to: to.recvCQ} {
			if _, err := poll(ctx, e, cq, "message", 1); err != nil {
				return err
			}
		}
		return same(ctx, to.sink, 0, size, seed)
	})
}

func same(ctx context.Context, m MR, off, n int, seed uint64) error {
	got, err := m.Check(ctx, off, n, seed, 0)
	if err == nil && got.Bad > 0 {
		err = fmt.Errorf("%d of %d bytes at %d are wrong, the first %d", got.Bad, n, off, got.First)
	}
	return err
}

func neverReady(ctx context.Context, a, b Side) error {
	few := func(_ *RTRAttr, s *RTSAttr) { s.RNRRetry = 3 }
	return onLink(ctx, a, b, plain, few, func(from, to *end) error {
		if err := from.qp.PostSend(ctx, SendWR{Op: Send, SGEs: []SGE{{from.source, 0, 100}}}); err != nil {
			return err
		}
		return hasFailed(ctx, from, RNRRetryExceeded)
	})
}

// Of peerGone and peerRestarts: 4.096 µs × 2^14 = 67 ms, once and three times again.
const (
	shortTimeout = 14
	retries      = 3
	patience     = (retries + 1) * 67 * time.Millisecond
)

func impatient(_ *RTRAttr, s *RTSAttr) { s.Timeout, s.RetryCnt = shortTimeout, retries }

// errLate is a request that was given up later than IBTA 9.7.6.1.3 allows: four times the timeout for
// each of the retries. A machine that is paused is late as well, but not every time.
var errLate = errors.New("given up too late")

// tries is how often givesUp may be late in a row before the requester is at fault.
const tries = 20

// givesUp posts a WRITE that nobody answers and wants it given up in time: not before all retries
// had their timeout, nor later than errLate says.
func givesUp(ctx context.Context, from, to *end) error {
	start := time.Now()
	err := from.qp.PostSend(ctx, SendWR{
		Op: Write, SGEs: []SGE{{from.source, 0, 3000}}, RemoteAddr: to.sink.Addr(), RKey: to.sink.RKey(),
	})
	if err != nil {
		return err
	}
	if err := hasFailed(ctx, from, RetryExceeded); err != nil {
		return err
	}
	took := time.Since(start)
	if took < patience*9/10 {
		return fmt.Errorf("%s gave up after %v, want %v to %v", from.side.Name(), took, patience, 4*patience)
	}
	if took > 4*patience {
		return fmt.Errorf("%s gave up after %v, want %v to %v: %w", from.side.Name(), took, patience, 4*patience, errLate)
	}
	return nil
}

func peerGone(ctx context.Context, a, b Side) error {
	return inTime(func() error {
		return onLink(ctx, a, b, plain, impatient, func(from, to *end) error {
			if err := to.qp.To(ctx, Reset); err != nil {
				return err
			}
			return givesUp(ctx, from, to)
		})
	})
}

// inTime runs a course of events until its request is given up in time.
func inTime(run func() error) (err error) {
	for range tries {
		if err = run(); !errors.Is(err, errLate) {
			return err
		}
	}
	return err
}

// peerRestarts has the responder forget the connection and come back with other PSNs, as one does
// that was restarted and got the same QPN. Nothing may be taken for success; a connection made
// anew works.
func peerRestarts(ctx context.Context, a, b Side, off int) error {
	return inTime(func() error {
		return onLink(ctx, a, b, plain, impatient, func(from, to *end) error {
			if err := write(ctx, from, to, 1); err != nil {
				return fmt.Errorf("before: %w", err)
			}
			if err := to.restart(ctx, to.firstPSN+77, from, int(from.firstPSN)+3+off); err != nil {
				return err
			}
			if err := to.sink.Fill(ctx, 0, region, 2, 0); err != nil {
				return err
			}
			if err := givesUp(ctx, from, to); err != nil {
				return err
			}
			if err := same(ctx, to.sink, 0, region, 2); err != nil {
				return fmt.Errorf("a stale packet was taken: %w", err)
			}
			const psn = 0x123456
			if err := errors.Join(to.restart(ctx, 1, from, psn), from.restart(ctx, psn, to, 1)); err != nil {
				return err
			}
			if err := write(ctx, from, to, 3); err != nil {
				return fmt.Errorf("after: %w", err)
			}
			return nil
		})
	})
}

// restart connects a queue pair again: it sends from PSN own on and expects PSN theirs next.
func (e *end) restart(ctx context.Context, own uint32, peer *end, theirs int) error {
	if err := errors.Join(e.qp.To(ctx, Reset), e.qp.ToInit(ctx, InitAttr{Rights: AllRights &^ MWBind})); err != nil {
		return err
	}
	e.firstPSN = own & 0xFFFFFF
	return e.connect(ctx, plain, peer, func(r *RTRAttr, s *RTSAttr) {
		impatient(r, s)
		r.PSN = uint32(theirs) & 0xFFFFFF
	})
}

// write writes three packets' worth of a pattern and compares them.
func write(ctx context.Context, from, to *end, seed uint64) error {
	const size = 3000
	if err := from.source.Fill(ctx, 0, size, seed, 0); err != nil {
		return err
	}
	err := from.qp.PostSend(ctx, SendWR{
		Op: Write, SGEs: []SGE{{from.source, 0, size}}, RemoteAddr: to.sink.Addr(), RKey: to.sink.RKey(),
	})
	if err != nil {
		return err
	}
	if _, err := poll(ctx, from, from.sendCQ, "write", 1); err != nil {
		return err
	}
	return same(ctx, to.sink, 0, size, seed)
}

// srqLimit wants the event when fewer receives are left than the limit, and not before.
func srqLimit(ctx context.Context, a, b Side) error {
	l := plain
	l.SRQ = true
	return onLink(ctx, a, b, l, nil, func(from, to *end) error {
		const posted, limit = 8, 4
		wrs := make([]RecvWR, posted)
		for i := range wrs {
			wrs[i] = RecvWR{ID: uint64(i), SGEs: []SGE{{to.sink, 100 * i, 100}}}
		}
		if err := errors.Join(to.srq.PostRecv(ctx, wrs...), to.srq.Arm(ctx, limit)); err != nil {
			return err
		}
		for left := posted - 1; left >= limit-1; left-- {
			if err := from.qp.PostSend(ctx, SendWR{Op: Send, SGEs: []SGE{{from.source, 0, 100}}}); err != nil {
				return err
			}
			if _, err := poll(ctx, from, from.sendCQ, "send", 1); err != nil {
				return err
			}
			patient := time.Duration(0)
			if left < limit {
				patient = wait
			}
			e, err := to.side.AsyncEvent(ctx, patient)
			for e != nil && e.Type != EventSRQLimit && err == nil { // COMM_EST and the like
				e, err = to.side.AsyncEvent(ctx, patient)
			}
			switch {
			case err != nil:
				return err
			case left >= limit && e != nil:
				return fmt.Errorf("event with %d receives left", left)
			case left < limit && (e == nil || e.SRQ != to.srq):
				return fmt.Errorf("event %+v, want the SRQ's limit with %d receives left", e, left)
			}
		}
		return nil
	})
}

// manyMessages moves them without a line of protocol for each, on both sides at once.
func manyMessages(ctx context.Context, a, b Side) error {
	return onLink(ctx, a, b, Link{Service: RC, PMTU: 4096}, nil, func(from, to *end) error {
		const count, depth, size, seed = 500, 32, 8192, 9
		if err := from.source.Fill(ctx, 0, depth*size, seed, 0); err != nil {
			return err
		}
		run := func(cq CQ, mr MR) Run {
			return Run{CQ: cq, Count: count, Depth: depth, Stride: size, Wait: time.Minute, WR: SendWR{Op: Send, SGEs: []SGE{{mr, 0, size}}}}
		}
		type result struct {
			RunResult
			err error
		}
		received := make(chan result)
		go func() {
			r, err := to.qp.RunRecv(ctx, run(to.recvCQ, to.sink))
			received <- result{r, err}
		}()
		sent, err := from.qp.Run(ctx, run(from.sendCQ, from.source))
		got := <-received
		if err != nil || got.err != nil || sent.Done != count || got.Done != count || sent.Late || sent.Errors > 0 {
			return fmt.Errorf("sent %+v (%w), received %+v (%w), want %d", sent, err, got.RunResult, got.err, count)
		}
		return same(ctx, to.sink, 0, depth*size, seed)
	})
}

// manyQueuePairs connects 64 pairs that complete to the same queues, and has a message outstanding on each.
func manyQueuePairs(ctx context.Context, a, b Side) error {
	return onLink(ctx, a, b, plain, nil, func(from, to *end) (err error) {
		const pairs, size, seed = 64, 3001, 11
		var qps [2][]*end
		defer func() {
			for _, side := range qps {
				for _, e := range side {
					err = errors.Join(err, e.qp.Destroy(ctx))
				}
			}
		}()
		for i := range pairs {
			var two [2]*end
			for k, on := range []*end{from, to} {
				e := *on
				e.firstPSN = uint32(0xFFFFFE + i)
				e.firstPSN &= 0xFFFFFF
				if e.qp, err = e.pd.NewQP(ctx, QPConfig{Service: RC, SendCQ: e.sendCQ, RecvCQ: e.recvCQ, SendWR: 4, RecvWR: 4}); err != nil {
					return err
				}
				qps[k] = append(qps[k], &e)
				if err := e.qp.ToInit(ctx, InitAttr{Rights: AllRights &^ MWBind}); err != nil {
					return err
				}
				two[k] = &e
			}
			if err := errors.Join(two[0].connect(ctx, plain, two[1], nil), two[1].connect(ctx, plain, two[0], nil)); err != nil {
				return err
			}
			if err := from.source.Fill(ctx, i*size, size, seed+uint64(i), 0); err != nil {
				return err
			}
			if err := two[1].qp.PostRecv(ctx, RecvWR{ID: uint64(i), SGEs: []SGE{{to.sink, i * size, size}}}); err != nil {
				return err
			}
		}
		for i, e := range qps[0] {
			if err := e.qp.PostSend(ctx, SendWR{ID: uint64(i), Op: Send, SGEs: []SGE{{from.source, i * size, size}}}); err != nil {
				return err
			}
		}
		for k, cq := range []CQ{from.sendCQ, to.recvCQ} {
			got, err := cq.Poll(ctx, pairs, wait)
			if err != nil {
				return err
			}
			seen := map[uint64]bool{}
			for _, c := range got {
				if c.Status != Success || seen[c.ID] || c.ID >= pairs || c.QPN != qps[k][c.ID].qp.QPN() {
					return fmt.Errorf("completion %+v (before it %v)", c, seen[c.ID])
				}
				seen[c.ID] = true
			}
			if len(seen) != pairs {
				return fmt.Errorf("%d of %d completions", len(seen), pairs)
			}
		}
		for i := range pairs {
			if err := same(ctx, to.sink, i*size, size, seed+uint64(i)); err != nil {
				return fmt.Errorf("queue pair %d: %w", i, err)
			}
		}
		return nil
	})
}
