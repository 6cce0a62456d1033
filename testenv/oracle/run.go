// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Run is a number of equal messages. Message i uses the memory at slot i modulo Depth, slots
// being Stride bytes apart at both ends.
type Run struct {
	CQ           verbs.CQ
	WR           verbs.SendWR // request with one SGE; its ID is ignored
	Count, Depth int
	Stride       int
	Wait         time.Duration // longest wait for all of them
}

// RunResult is how a Run went. Late says that Wait had passed before the end.
type RunResult struct {
	Done, Errors int
	FirstError   verbs.Status
	Late         bool
	Took         time.Duration
}

// send sends messages like r.WR, r.Depth of them at a time, and waits for their completions.
func (r Run) send(ctx context.Context, q verbs.QP) (RunResult, error) {
	r.WR.Flags |= verbs.Signaled
	if q, ok := q.(*judgeQP); ok {
		return q.run(ctx, r, "run"+sendArgs(&r.WR))
	}
	return r.run(ctx, func(id, shift uint64) error {
		wr := r.WR
		wr.ID, wr.SGL = id, moved(r.WR.SGL, shift)
		switch wr.Op {
		case verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead:
			wr.RemoteAddr += shift
		}
		return q.PostSend(&wr)
	})
}

// receive takes the messages of the peer's Run into r.WR's SGE.
func (r Run) receive(ctx context.Context, q verbs.QP) (RunResult, error) {
	if q, ok := q.(*judgeQP); ok {
		return q.run(ctx, r, "run_recv"+sglArgs(r.WR.SGL))
	}
	return r.run(ctx, func(id, shift uint64) error {
		return q.PostRecv(&verbs.RecvWR{ID: id, SGL: moved(r.WR.SGL, shift)})
	})
}

func moved(sgl []verbs.SGE, shift uint64) []verbs.SGE {
	out := slices.Clone(sgl)
	for i := range out {
		out[i].Addr += shift
	}
	return out
}

// run keeps r.Depth requests posted until r.Count have completed. After an error it posts no more
// and collects the outstanding ones, as the helper in the machine does.
func (r Run) run(ctx context.Context, post func(id, shift uint64) error) (res RunResult, err error) {
	if r.Depth < 1 {
		return res, errors.New("a run needs a depth")
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, r.Wait)
	defer cancel()
	defer func() { res.Took = time.Since(start) }()
	got := make([]verbs.Completion, 64)
	for posted := 0; res.Done+res.Errors < r.Count; {
		for res.Errors == 0 && posted < r.Count && posted-res.Done < r.Depth {
			if err := post(uint64(posted), uint64(posted%r.Depth*r.Stride)); err != nil {
				return res, fmt.Errorf("message %d: %w", posted, err)
			}
			posted++
		}
		if res.Errors > 0 && res.Done+res.Errors == posted {
			break
		}
		n := r.CQ.Poll(got)
		res.count(got[:n])
		if n > 0 {
			continue
		}
		if err := r.CQ.Wait(ctx, false); err != nil {
			if ctx.Err() == nil {
				return res, err
			}
			res.Late = true
			return res, nil
		}
	}
	return res, nil
}

func (res *RunResult) count(got []verbs.Completion) {
	for _, c := range got {
		if c.Status == verbs.StatusSuccess {
			res.Done++
			continue
		}
		if res.Errors == 0 {
			res.FirstError = c.Status
		}
		res.Errors++
	}
}
