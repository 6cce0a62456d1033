// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// manyQueuePairs connects 64 pairs that complete to the same queues, and has a message outstanding on each.
func manyQueuePairs(ctx context.Context, a, b Side) error {
	return onLink(a, b, plain, nil, func(from, to *end) (err error) {
		const pairs, size, seed = 64, 3001, 11
		var qps [2][]*end
		defer func() {
			for _, e := range append(qps[0], qps[1]...) {
				err = errors.Join(err, e.qp.Destroy())
			}
		}()
		for i := range pairs {
			for k, on := range []*end{from, to} {
				e, err := on.another(rocev2.PSN(0xFFFFFE).Add(i))
				if err != nil {
					return err
				}
				qps[k] = append(qps[k], e)
			}
			x, y := qps[0][i], qps[1][i]
			err := errors.Join(x.connect(plain, y.local, nil), y.connect(plain, x.local, nil),
				fill(from.source, i*size, size, seed+uint64(i), 0),
				postRecv(y.qp, verbs.RecvWR{ID: uint64(i), SGL: piece(to.sink, i*size, size)}))
			if err != nil {
				return err
			}
		}
		for i, e := range qps[0] {
			if err := postSend(e.qp, verbs.SendWR{ID: uint64(i), Op: verbs.OpSend, SGL: piece(from.source, i*size, size)}); err != nil {
				return err
			}
		}
		if err := errors.Join(onePerPair(ctx, from.sendCQ, qps[0]), onePerPair(ctx, to.recvCQ, qps[1])); err != nil {
			return err
		}
		for i := range pairs {
			if err := same(to.sink, i*size, size, seed+uint64(i)); err != nil {
				return fmt.Errorf("queue pair %d: %w", i, err)
			}
		}
		return nil
	})
}

// another makes a further queue pair that completes to the queues of e. The caller destroys it.
func (e *end) another(psn rocev2.PSN) (*end, error) {
	qp, err := e.pd.CreateQP(verbs.QPInit{
		Type: verbs.RC, SendCQ: e.sendCQ, RecvCQ: e.recvCQ, MaxSend: 4, MaxRecv: 4, MaxSendSGE: 1, MaxRecvSGE: 1,
	})
	if err != nil {
		return nil, err
	}
	x := *e
	x.qp, x.local.QPN, x.local.PSN = qp, qp.QPN(), psn
	return &x, nil
}

// onePerPair wants one successful completion of each queue pair, whose index is the ID.
func onePerPair(ctx context.Context, cq verbs.CQ, qps []*end) error {
	got, err := collect(ctx, cq, len(qps), wait)
	if err != nil {
		return err
	}
	seen := map[uint64]bool{}
	for _, c := range got {
		if c.Status != verbs.StatusSuccess || seen[c.WRID] || c.WRID >= uint64(len(qps)) || c.QPN != qps[c.WRID].local.QPN {
			return fmt.Errorf("completion %+v (before it %v)", c, seen[c.WRID])
		}
		seen[c.WRID] = true
	}
	if len(seen) != len(qps) {
		return fmt.Errorf("%d of %d completions", len(seen), len(qps))
	}
	return nil
}
