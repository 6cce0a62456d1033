// SPDX-License-Identifier: Apache-2.0

package sides

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/oracle"
)

// Poller is a completion queue. Wait returns when there may be a completion, or with the error of
// the context.
type Poller interface {
	Poll(out []verbs.Completion) int
	Wait(ctx context.Context, solicitedOnly bool) error
}

// Poster is a queue pair.
type Poster interface {
	PostSend(wr *verbs.SendWR) error
	PostRecv(wr *verbs.RecvWR) error
}

// Poll waits until n completions are there or wait has passed.
func Poll(ctx context.Context, cq Poller, n int, wait time.Duration) ([]oracle.Completion, error) {
	var out []oracle.Completion
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	got := make([]verbs.Completion, n)
	for len(out) < n {
		k := cq.Poll(got[:n-len(out)])
		for _, w := range got[:k] {
			t, err := Completion(w)
			if err != nil {
				return out, err
			}
			out = append(out, t)
		}
		if k > 0 {
			continue
		}
		if err := cq.Wait(ctx, false); err != nil {
			if ctx.Err() != nil { // wait has passed
				return out, nil
			}
			return out, err
		}
	}
	return out, nil
}

// Send sends messages like r.WR, whose translation is first, r.Depth of them at a time.
func Send(ctx context.Context, q Poster, cq Poller, r oracle.Run, first *verbs.SendWR) (oracle.RunResult, error) {
	return run(ctx, cq, r, func(id, shift uint64) error {
		wr := *first
		wr.ID, wr.SGL = id, moved(first.SGL, shift)
		switch wr.Op {
		case verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead:
			wr.RemoteAddr += shift
		}
		return q.PostSend(&wr)
	})
}

// Receive takes the messages of the peer's Run.
func Receive(ctx context.Context, q Poster, cq Poller, r oracle.Run) (oracle.RunResult, error) {
	first := SGL(r.WR.SGEs)
	return run(ctx, cq, r, func(id, shift uint64) error {
		return q.PostRecv(&verbs.RecvWR{ID: id, SGL: moved(first, shift)})
	})
}

func moved(sgl []verbs.SGE, shift uint64) []verbs.SGE {
	out := append([]verbs.SGE(nil), sgl...)
	for i := range out {
		out[i].Addr += shift
	}
	return out
}

// run keeps r.Depth requests posted until r.Count have completed. After an error it posts no more
// and collects the outstanding ones, as the helper in the machine does.
func run(ctx context.Context, cq Poller, r oracle.Run, post func(id, shift uint64) error) (res oracle.RunResult, err error) {
	if r.Depth < 1 {
		return res, errors.New("a run needs a depth")
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, r.Wait)
	defer cancel()
	defer func() { res.Took = time.Since(start) }()
	got := make([]verbs.Completion, 64)
	for posted := r.Posted; res.Done+res.Errors < r.Count; {
		for res.Errors == 0 && posted < r.Count && posted-res.Done < r.Depth {
			if err := post(uint64(posted), uint64(posted%r.Depth*r.Stride)); err != nil {
				return res, fmt.Errorf("message %d: %w", posted, err)
			}
			posted++
		}
		if res.Errors > 0 && res.Done+res.Errors == posted {
			break
		}
		n := cq.Poll(got)
		for _, w := range got[:n] {
			if w.Status == verbs.StatusSuccess {
				res.Done++
				continue
			}
			if res.Errors == 0 {
				res.FirstError = statuses[w.Status]
			}
			res.Errors++
		}
		if n > 0 {
			continue
		}
		if err := cq.Wait(ctx, false); err != nil {
			if ctx.Err() == nil {
				return res, err
			}
			res.Late = true
			return res, nil
		}
	}
	return res, nil
}
