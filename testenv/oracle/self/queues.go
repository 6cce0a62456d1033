// SPDX-License-Identifier: Apache-2.0

package self

import (
	"context"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/oracle"
)

type completionQueue struct{ q verbs.CQ }

// NewCQ makes a completion queue.
func (s *Side) NewCQ(_ context.Context, depth int) (oracle.CQ, error) {
	q, err := s.Dev.CreateCQ(depth)
	return completionQueue{q}, err
}

func (c completionQueue) Destroy(context.Context) error { return c.q.Destroy() }

func (c completionQueue) Poll(ctx context.Context, n int, wait time.Duration) ([]oracle.Completion, error) {
	var out []oracle.Completion
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	got := make([]verbs.Completion, n)
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
var statuses = map[verbs.Status]oracle.Status{
	verbs.StatusSuccess: oracle.Success, verbs.StatusLocalLength: oracle.LocalLengthError, verbs.StatusLocalQPOperation: oracle.LocalQPOperationError,
	verbs.StatusLocalProtection: oracle.LocalProtectionError, verbs.StatusWRFlushed: oracle.Flushed, verbs.StatusMWBindError: oracle.MWBindError,
	verbs.StatusBadResponse: oracle.BadResponse, verbs.StatusLocalAccess: oracle.LocalAccessError,
	verbs.StatusRemoteInvalidRequest: oracle.RemoteInvalidRequest, verbs.StatusRemoteAccess: oracle.RemoteAccessError,
	verbs.StatusRemoteOperation: oracle.RemoteOperationError, verbs.StatusRetryExceeded: oracle.RetryExceeded,
	verbs.StatusRNRRetryExceeded: oracle.RNRRetryExceeded,
}

var kinds = map[verbs.Op]oracle.WCOp{
	verbs.OpSend: oracle.WCSend, verbs.OpSendImm: oracle.WCSend, verbs.OpSendInv: oracle.WCSend,
	verbs.OpWrite: oracle.WCWrite, verbs.OpWriteImm: oracle.WCWrite, verbs.OpRead: oracle.WCRead,
	verbs.OpCompareSwap: oracle.WCCompareSwap, verbs.OpFetchAdd: oracle.WCFetchAdd, verbs.OpBindWindow: oracle.WCBindMW,
	verbs.OpLocalInv: oracle.WCLocalInv, verbs.OpRecv: oracle.WCRecv, verbs.OpRecvWriteImm: oracle.WCRecvImm,
}

func completion(w verbs.Completion) (oracle.Completion, error) {
	c := oracle.Completion{ID: w.WRID, QPN: w.QPN}
	var ok bool
	if c.Status, ok = statuses[w.Status]; !ok {
		return c, fmt.Errorf("completion with status %v, which verbs do not have", w.Status)
	}
	if w.Status != verbs.StatusSuccess {
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
	q verbs.SRQ
}

func (d domain) NewSRQ(_ context.Context, depth int) (oracle.SRQ, error) {
	q, err := d.pd.CreateSRQ(depth, 1)
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

func (s *sharedQueue) PostRecv(_ context.Context, wrs ...oracle.RecvWR) error {
	return postRecv(s.q.PostRecv, wrs)
}

func postRecv(post func(*verbs.RecvWR) error, wrs []oracle.RecvWR) error {
	for _, wr := range wrs {
		if err := post(&verbs.RecvWR{ID: wr.ID, SGL: sgl(wr.SGEs)}); err != nil {
			return err
		}
	}
	return nil
}

func sgl(s []oracle.SGE) (out []verbs.SGE) {
	for _, e := range s {
		out = append(out, verbs.SGE{Addr: e.MR.Addr() + uint64(e.Off), Len: uint32(e.Len), LKey: e.MR.LKey()})
	}
	return out
}
