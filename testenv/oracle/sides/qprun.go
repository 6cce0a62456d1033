// SPDX-License-Identifier: Apache-2.0

package sides

import (
	"context"
	"fmt"

	"github.com/softroce/softroce-xdp/testenv/oracle"
)

func (q *queuePair) queue(r oracle.Run) (Poller, error) {
	cq, ok := r.CQ.(completionQueue)
	if !ok {
		return nil, fmt.Errorf("%s: Run needs a completion queue of the same side", q.s.Name())
	}
	return cq.q, nil
}

// Run sends messages like r.WR, r.Depth of them at a time.
func (q *queuePair) Run(ctx context.Context, r oracle.Run) (oracle.RunResult, error) {
	cq, err := q.queue(r)
	if err != nil {
		return oracle.RunResult{}, err
	}
	r.WR.Unsignaled = false
	first, err := SendWR(ctx, r.WR, handle)
	if err != nil {
		return oracle.RunResult{}, err
	}
	return Send(ctx, q.q, cq, r, first)
}

// RunRecv takes the messages of the peer's Run.
func (q *queuePair) RunRecv(ctx context.Context, r oracle.Run) (oracle.RunResult, error) {
	cq, err := q.queue(r)
	if err != nil {
		return oracle.RunResult{}, err
	}
	return Receive(ctx, q.q, cq, r)
}
