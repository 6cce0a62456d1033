// SPDX-License-Identifier: Apache-2.0

package ourside

import (
	"context"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/testenv/rxejudge"
)

type completionQueue struct{ q *nic.CQ }

// NewCQ makes a completion queue.
func (s *Side) NewCQ(_ context.Context, depth int) (rxejudge.CQ, error) {
	q, err := s.Dev.CreateCQ(depth)
	return completionQueue{q}, err
}

func (c completionQueue) Destroy(context.Context) error { return c.q.Destroy() }

func (c completionQueue) Poll(ctx context.Context, n int, wait time.Duration) ([]rxejudge.Completion, error) {
	var out []rxejudge.Completion
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	got := make([]qp.Completion, n)
	for len(out) < n {
		k := c.q.Poll(got[:n-len(out)])
		for _, w := range got[:k] {
			t, err := completion(w)
			if err != nil {
				return out, err
			}
			out = append(out, t)
		}
		if k > 0 {
			continue
		}
		if err := c.q.Wait(ctx, false); err != nil {
			if ctx.Err() != nil { // wait has passed
				return out, nil
			}
			return out, err
		}
	}
	return out, nil
}

// statuses are those of enum ibv_wc_status.
var statuses = map[qp.Status]rxejudge.Status{
	qp.Success: rxejudge.Success, qp.LocalLength: rxejudge.LocalLengthError, qp.LocalQPOperation: rxejudge.LocalQPOperationError,
	qp.LocalProtection: rxejudge.LocalProtectionError, qp.WRFlushed: rxejudge.Flushed, qp.MWBindError: rxejudge.MWBindError,
	qp.BadResponse: rxejudge.BadResponse, qp.LocalAccess: rxejudge.LocalAccessError,
	qp.RemoteInvalidRequest: rxejudge.RemoteInvalidRequest, qp.RemoteAccess: rxejudge.RemoteAccessError,
	qp.RemoteOperation: rxejudge.RemoteOperationError, qp.RetryExceeded: rxejudge.RetryExceeded,
	qp.RNRRetryExceeded: rxejudge.RNRRetryExceeded,
}

var kinds = map[qp.Operation]rxejudge.WCOp{
	qp.OpSend: rxejudge.WCSend, qp.OpSendImm: rxejudge.WCSend, qp.OpSendInv: rxejudge.WCSend,
	qp.OpWrite: rxejudge.WCWrite, qp.OpWriteImm: rxejudge.WCWrite, qp.OpRead: rxejudge.WCRead,
	qp.OpCompareSwap: rxejudge.WCCompareSwap, qp.OpFetchAdd: rxejudge.WCFetchAdd, qp.OpBindWindow: rxejudge.WCBindMW,
	qp.OpLocalInv: rxejudge.WCLocalInv, qp.OpRecv: rxejudge.WCRecv, qp.OpRecvWriteImm: rxejudge.WCRecvImm,
}

func completion(w qp.Completion) (rxejudge.Completion, error) {
	c := rxejudge.Completion{ID: w.WRID, QPN: w.QPN}
	var ok bool
	if c.Status, ok = statuses[w.Status]; !ok {
		return c, fmt.Errorf("completion with status %v, which verbs do not have", w.Status)
	}
	if w.Status != qp.Success {
		return c, nil
	}
	if c.Op, ok = kinds[w.Op]; !ok {
		return c, fmt.Errorf("completion of operation %d", w.Op)
	}
	c.Len, c.GRH, c.SrcQP = int(w.Bytes), w.HasGRH, w.SrcQP
	if w.HasImm {
		c.Imm = &w.Imm
	}
	if w.HasInv {
		c.Inv = &w.InvKey
	}
	return c, nil
}

type sharedQueue struct {
	s *Side
	q *nic.SRQ
}

func (d domain) NewSRQ(_ context.Context, depth int) (rxejudge.SRQ, error) {
	q, err := d.s.Dev.CreateSRQ(d.pd, depth, 1)
	if err != nil {
		return nil, err
	}
	s := &sharedQueue{d.s, q}
	d.s.mu.Lock()
	d.s.srqs[q] = s
	d.s.mu.Unlock()
	return s, nil
}

func (s *sharedQueue) Arm(_ context.Context, limit int) error { return s.q.SetLimit(limit) }

func (s *sharedQueue) Destroy(context.Context) error {
	s.s.mu.Lock()
	delete(s.s.srqs, s.q)
	s.s.mu.Unlock()
	return s.q.Destroy()
}

func (s *sharedQueue) PostRecv(_ context.Context, wrs ...rxejudge.RecvWR) error {
	return postRecv(s.q.PostRecv, wrs)
}

func postRecv(post func(*qp.RecvWR) error, wrs []rxejudge.RecvWR) error {
	for _, wr := range wrs {
		if err := post(&qp.RecvWR{ID: wr.ID, SGL: sgl(wr.SGEs)}); err != nil {
			return err
		}
	}
	return nil
}

func sgl(s []rxejudge.SGE) (out []qp.SGE) {
	for _, e := range s {
		out = append(out, qp.SGE{Addr: e.MR.Addr() + uint64(e.Off), Len: uint32(e.Len), LKey: e.MR.LKey()})
	}
	return out
}
