// SPDX-License-Identifier: Apache-2.0

package self

import (
	"context"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/oracle"
)

// Run sends messages like r.WR, r.Depth of them at a time.
func (q *queuePair) Run(ctx context.Context, r oracle.Run) (oracle.RunResult, error) {
	r.WR.Unsignaled = false
	first, err := sendWR(r.WR)
	if err != nil {
		return oracle.RunResult{}, err
	}
	return q.run(ctx, r, func(id, shift uint64) error {
		wr := *first
		wr.ID, wr.SGL = id, moved(first.SGL, shift)
		switch wr.Op {
		case verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead:
			wr.RemoteAddr += shift
		}
		return q.q.PostSend(&wr)
	})
}

// RunRecv takes the messages of the peer's Run.
func (q *queuePair) RunRecv(ctx context.Context, r oracle.Run) (oracle.RunResult, error) {
	first := sgl(r.WR.SGEs)
	return q.run(ctx, r, func(id, shift uint64) error {
		return q.q.PostRecv(&verbs.RecvWR{ID: id, SGL: moved(first, shift)})
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
func (q *queuePair) run(ctx context.Context, r oracle.Run, post func(id, shift uint64) error) (res oracle.RunResult, err error) {
	cq, ok := r.CQ.(completionQueue)
	if !ok || r.Depth < 1 {
		return res, fmt.Errorf("%s: Run needs a completion queue of the same side, and a depth", q.s.Name())
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
		n := cq.q.Poll(got)
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
		if err := cq.q.Wait(ctx, false); err != nil {
			if ctx.Err() == nil {
				return res, err
			}
			res.Late = true
			return res, nil
		}
	}
	return res, nil
}
