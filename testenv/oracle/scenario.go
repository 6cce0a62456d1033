// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
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
func onLink(from, to Side, l Link, change func(*verbs.Attr), f func(from, to *end) error) error {
	ends, err := connectPair(from, to, l, peerRights, change)
	if err != nil {
		return err
	}
	err = f(ends[0], ends[1])
	for _, e := range ends {
		if cerr := e.close(); cerr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", e.side.Name(), cerr))
		}
	}
	return err
}

var plain = Link{Service: verbs.RC, PMTU: rocev2.PMTU1024}

// hasFailed wants the first request to have ended so, and the queue pair to be in ERR.
func hasFailed(ctx context.Context, e *end, want verbs.Status) error {
	if err := ended(ctx, e, e.sendCQ, []verbs.Status{want}); err != nil {
		return err
	}
	return inError(e)
}

// noBytesNoKey: IBTA 9.7.4.1.5.
func noBytesNoKey(ctx context.Context, a, b Side) error {
	return onLink(a, b, plain, nil, func(from, to *end) error {
		if err := postSend(from.qp, verbs.SendWR{Op: verbs.OpWrite, RemoteAddr: 0x123, RKey: 0x45678}); err != nil {
			return err
		}
		_, err := poll(ctx, from, from.sendCQ, "write", 1)
		return err
	})
}

// notReady posts the receive after the message, which arrives all the same.
func notReady(ctx context.Context, a, b Side) error {
	return onLink(a, b, plain, nil, func(from, to *end) error {
		const size, seed = 2000, 5
		if err := fill(from.source, 0, size, seed, 0); err != nil {
			return err
		}
		if err := postSend(from.qp, verbs.SendWR{Op: verbs.OpSend, SGL: piece(from.source, 0, size)}); err != nil {
			return err
		}
		if got, err := collect(ctx, from.sendCQ, 1, 100*time.Millisecond); err != nil || len(got) > 0 {
			return fmt.Errorf("completed without a receive: %+v (%w)", got, err)
		}
		if err := postRecv(to.qp, verbs.RecvWR{SGL: piece(to.sink, 0, size)}); err != nil {
			return err
		}
		for e, cq := range map[*end]verbs.CQ{from: from.sendCQ, to: to.recvCQ} {
			if _, err := poll(ctx, e, cq, "message", 1); err != nil {
				return err
			}
		}
		return same(to.sink, 0, size, seed)
	})
}

func same(m verbs.DM, off, n int, seed uint64) error {
	got, err := check(m, off, n, seed, 0)
	if err == nil && got.Bad > 0 {
		err = fmt.Errorf("%d of %d bytes at %d are wrong, the first %d", got.Bad, n, off, got.First)
	}
	return err
}

func neverReady(ctx context.Context, a, b Side) error {
	few := func(a *verbs.Attr) { a.RNRRetry = 3 }
	return onLink(a, b, plain, few, func(from, to *end) error {
		if err := postSend(from.qp, verbs.SendWR{Op: verbs.OpSend, SGL: piece(from.source, 0, 100)}); err != nil {
			return err
		}
		return hasFailed(ctx, from, verbs.StatusRNRRetryExceeded)
	})
}

// Of peerGone and peerRestarts: 4.096 µs × 2^14 = 67 ms, once and three times again.
const (
	shortTimeout = 14
	retries      = 3
	patience     = (retries + 1) * 67 * time.Millisecond
)

func impatient(a *verbs.Attr) { a.Timeout, a.RetryCnt = shortTimeout, retries }

// errLate is a request that was given up later than IBTA 9.7.6.1.3 allows: four times the timeout for
// each of the retries, or one that a peer should have answered before. A machine that is paused is late as well,
// but not every time.
var errLate = errors.New("given up, or answered, too late")

// tries is how often a course of events may be late in a row before the requester is at fault.
const tries = 20

// givesUp posts a WRITE that nobody answers and wants it given up in time: not before all retries
// had their timeout, nor later than errLate says.
func givesUp(ctx context.Context, from, to *end) error {
	start := time.Now()
	err := postSend(from.qp, verbs.SendWR{
		Op: verbs.OpWrite, SGL: piece(from.source, 0, 3000), RemoteAddr: to.sink.VA(), RKey: to.sink.RKey(),
	})
	if err != nil {
		return err
	}
	if err := hasFailed(ctx, from, verbs.StatusRetryExceeded); err != nil {
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
		return onLink(a, b, plain, impatient, func(from, to *end) error {
			if err := to.qp.Modify(verbs.Attr{State: verbs.StateReset}, verbs.MaskState); err != nil {
				return err
			}
			return givesUp(ctx, from, to)
		})
	})
}

// inTime runs a course of events until none of its requests is late.
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
		return onLink(a, b, plain, impatient, func(from, to *end) error {
			if err := answered(ctx, from, to, 1); err != nil {
				return fmt.Errorf("before: %w", err)
			}
			if err := to.restart(to.local.PSN.Add(77), from, from.local.PSN.Add(3+off)); err != nil {
				return err
			}
			if err := fill(to.sink, 0, region, 2, 0); err != nil {
				return err
			}
			if err := givesUp(ctx, from, to); err != nil {
				return err
			}
			if err := same(to.sink, 0, region, 2); err != nil {
				return fmt.Errorf("a stale packet was taken: %w", err)
			}
			const psn = 0x123456
			if err := errors.Join(to.restart(1, from, psn), from.restart(psn, to, 1)); err != nil {
				return err
			}
			if err := answered(ctx, from, to, 3); err != nil {
				return fmt.Errorf("after: %w", err)
			}
			return nil
		})
	})
}

// restart connects a queue pair again: it sends from PSN own on and expects PSN theirs next.
func (e *end) restart(own rocev2.PSN, peer *end, theirs rocev2.PSN) error {
	if err := e.qp.Modify(verbs.Attr{State: verbs.StateReset}, verbs.MaskState); err != nil {
		return err
	}
	e.local.PSN = own
	remote := peer.local
	remote.PSN = theirs
	return e.connect(plain, remote, impatient)
}

// answered is write with an impatient requester: one that gives up is errLate.
func answered(ctx context.Context, from, to *end, seed uint64) error {
	err := write(ctx, from, to, seed)
	if e := (*statusError)(nil); errors.As(err, &e) && e.status == verbs.StatusRetryExceeded {
		return fmt.Errorf("%w: %w", errLate, err)
	}
	return err
}

// write writes three packets' worth of a pattern and compares them.
func write(ctx context.Context, from, to *end, seed uint64) error {
	const size = 3000
	if err := fill(from.source, 0, size, seed, 0); err != nil {
		return err
	}
	err := postSend(from.qp, verbs.SendWR{
		Op: verbs.OpWrite, SGL: piece(from.source, 0, size), RemoteAddr: to.sink.VA(), RKey: to.sink.RKey(),
	})
	if err != nil {
		return err
	}
	if _, err := poll(ctx, from, from.sendCQ, "write", 1); err != nil {
		return err
	}
	return same(to.sink, 0, size, seed)
}

// srqLimit wants the event when fewer receives are left than the limit, and not before.
func srqLimit(ctx context.Context, a, b Side) error {
	l := plain
	l.SRQ = true
	return onLink(a, b, l, nil, func(from, to *end) error {
		const posted, limit = 8, 4
		wrs := make([]verbs.RecvWR, posted)
		for i := range wrs {
			wrs[i] = verbs.RecvWR{ID: uint64(i), SGL: piece(to.sink, 100*i, 100)}
		}
		if err := errors.Join(postRecv(to.srq, wrs...), to.srq.SetLimit(limit)); err != nil {
			return err
		}
		for left := posted - 1; left >= limit-1; left-- {
			if err := postSend(from.qp, verbs.SendWR{Op: verbs.OpSend, SGL: piece(from.source, 0, 100)}); err != nil {
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
			for e != nil && e.Type != verbs.EventSRQLimit && err == nil { // COMM_EST and the like
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
	return onLink(a, b, Link{Service: verbs.RC, PMTU: rocev2.PMTU4096}, nil, func(from, to *end) error {
		const count, depth, size, seed = 500, 32, 8192, 9
		if err := fill(from.source, 0, depth*size, seed, 0); err != nil {
			return err
		}
		run := func(cq verbs.CQ, m verbs.MR) Run {
			wr := verbs.SendWR{Op: verbs.OpSend, SGL: piece(m, 0, size)}
			return Run{CQ: cq, Count: count, Depth: depth, Stride: size, Wait: time.Minute, WR: wr}
		}
		type result struct {
			RunResult
			err error
		}
		received := make(chan result)
		go func() {
			r, err := run(to.recvCQ, to.sink).receive(ctx, to.qp)
			received <- result{r, err}
		}()
		sent, err := run(from.sendCQ, from.source).send(ctx, from.qp)
		got := <-received
		if err != nil || got.err != nil || sent.Done != count || got.Done != count || sent.Late || sent.Errors > 0 {
			return fmt.Errorf("sent %+v (%w), received %+v (%w), want %d", sent, err, got.RunResult, got.err, count)
		}
		return same(to.sink, 0, depth*size, seed)
	})
}
