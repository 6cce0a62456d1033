// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

type judgeQP struct {
	object
	qpn uint64
}

func (p judgePD) NewQP(ctx context.Context, c QPConfig) (QP, error) {
	send, ok1 := c.SendCQ.(judgeCQ)
	recv, ok2 := c.RecvCQ.(judgeCQ)
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("judge %s: the completion queues of a QP must be of the same judge", p.j.Name())
	}
	line := fmt.Sprintf("qp pd=%d type=%s send_cq=%d recv_cq=%d send_wr=%d recv_wr=%d send_sge=%d recv_sge=%d inline=%d",
		p.handle, c.Service, send.handle, recv.handle, c.SendWR, c.RecvWR, max(1, c.SendSGE), max(1, c.RecvSGE), c.Inline)
	if c.SRQ != nil {
		line += fmt.Sprintf(" srq=%d", c.SRQ.(*judgeSRQ).handle)
	}
	qp := &judgeQP{}
	var err error
	if qp.object, err = p.j.make(ctx, "qp", map[string]*uint64{"qpn": &qp.qpn}, line); err != nil {
		return nil, err
	}
	p.j.mu.Lock()
	p.j.qps[qp.handle] = qp
	p.j.mu.Unlock()
	return qp, nil
}

func (q *judgeQP) QPN() uint32 { return uint32(q.qpn) }

func (q *judgeQP) modify(ctx context.Context, to State, format string, args ...any) error {
	_, err := q.j.conn.do(ctx, "modify qp=%d state=%s%s", q.handle, to, fmt.Sprintf(format, args...))
	return err
}

func (q *judgeQP) ToInit(ctx context.Context, a InitAttr) error {
	if a.QKey != 0 {
		return q.modify(ctx, Init, " pkey_index=0 port=1 qkey=%#x", a.QKey)
	}
	return q.modify(ctx, Init, " pkey_index=0 port=1 access=%#x", uint32(a.Rights))
}

func (q *judgeQP) ToRTR(ctx context.Context, a RTRAttr) error {
	if a.Service == UD {
		return q.modify(ctx, RTR, "")
	}
	sgid, err := q.j.sgid(ctx, a.Peer)
	if err != nil {
		return err
	}
	line := fmt.Sprintf(" dgid=%s sgid=%d dest_qpn=%d rq_psn=%d mtu=%d", gid(a.Peer), sgid, a.DestQPN, a.PSN, a.PMTU)
	if a.Service == RC {
		line += fmt.Sprintf(" dest_rd_atomic=%d min_rnr_timer=%d", a.DestRdAtomic, a.MinRNRTimer)
	}
	return q.modify(ctx, RTR, "%s", line)
}

func (q *judgeQP) ToRTS(ctx context.Context, a RTSAttr) error {
	line := fmt.Sprintf(" sq_psn=%d", a.PSN)
	if a.Service == RC {
		line += fmt.Sprintf(" timeout=%d retry_cnt=%d rnr_retry=%d rd_atomic=%d", a.Timeout, a.RetryCnt, a.RNRRetry, a.RdAtomic)
	}
	return q.modify(ctx, RTS, "%s", line)
}

func (q *judgeQP) To(ctx context.Context, s State) error { return q.modify(ctx, s, "") }

func (q *judgeQP) State(ctx context.Context) (State, error) {
	got, err := q.j.conn.do(ctx, "query qp=%d", q.handle)
	if err != nil {
		return 0, err
	}
	text, err := got.text("state")
	if err != nil {
		return 0, err
	}
	i := slices.Index(stateNames[:], text)
	if i < 0 {
		return 0, fmt.Errorf("judge %s: QP %d is in a state named %q", q.j.Name(), q.qpn, text)
	}
	return State(i), nil
}

func sgeArgs(sges []SGE) string {
	var b strings.Builder
	for _, s := range sges {
		fmt.Fprintf(&b, " sge=%#x:%d:%#x", s.MR.Addr()+uint64(s.Off), s.Len, s.MR.LKey())
	}
	return b.String()
}

// sendArgs is a send request as the helper reads it.
func sendArgs(wr SendWR) string {
	var b strings.Builder
	fmt.Fprintf(&b, " op=%s id=%d%s", wr.Op, wr.ID, sgeArgs(wr.SGEs))
	for name, on := range map[string]bool{"signaled": !wr.Unsignaled, "solicited": wr.Solicited, "fence": wr.Fence, "inline": wr.Inline} {
		if on {
			fmt.Fprintf(&b, " %s=1", name)
		}
	}
	switch wr.Op {
	case SendImm, WriteImm:
		fmt.Fprintf(&b, " imm=%#x", wr.Imm)
	case SendInv, LocalInv:
		fmt.Fprintf(&b, " inv=%#x", wr.Inv)
	}
	switch wr.Op {
	case Write, WriteImm, Read, CompareSwap, FetchAdd:
		fmt.Fprintf(&b, " raddr=%#x rkey=%#x", wr.RemoteAddr, wr.RKey)
	}
	switch wr.Op {
	case CompareSwap:
		fmt.Fprintf(&b, " compare_add=%#x swap=%#x", wr.CompareAdd, wr.Swap)
	case FetchAdd:
		fmt.Fprintf(&b, " compare_add=%#x", wr.CompareAdd)
	case BindMW:
		m := wr.Bind.MR.(*judgeMR)
		fmt.Fprintf(&b, " mw=%d mr=%d addr=%#x len=%d access=%#x rkey=%#x", wr.Bind.MW.(*judgeMW).handle, m.handle,
			m.addr+uint64(wr.Bind.Off), wr.Bind.Len, uint32(wr.Bind.Rights), wr.Bind.RKey)
	}
	if wr.UD != nil {
		fmt.Fprintf(&b, " ah=%d rqpn=%d rqkey=%#x", wr.UD.AH.(judgeAH).handle, wr.UD.QPN, wr.UD.QKey)
	}
	return b.String()
}

func (q *judgeQP) PostSend(ctx context.Context, wrs ...SendWR) error {
	lines := make([]string, len(wrs))
	for i, wr := range wrs {
		lines[i] = fmt.Sprintf("post_send qp=%d%s", q.handle, sendArgs(wr))
	}
	_, err := q.j.conn.doAll(ctx, lines)
	return err
}

func (q *judgeQP) PostRecv(ctx context.Context, wrs ...RecvWR) error {
	return q.j.postRecv(ctx, fmt.Sprintf("qp=%d", q.handle), wrs)
}

func (j *Judge) postRecv(ctx context.Context, queue string, wrs []RecvWR) error {
	lines := make([]string, len(wrs))
	for i, wr := range wrs {
		lines[i] = fmt.Sprintf("post_recv %s id=%d%s", queue, wr.ID, sgeArgs(wr.SGEs))
	}
	_, err := j.conn.doAll(ctx, lines)
	return err
}

func (q *judgeQP) Run(ctx context.Context, r Run) (RunResult, error) {
	r.WR.Unsignaled = false
	return q.run(ctx, r, "run"+sendArgs(r.WR))
}

func (q *judgeQP) RunRecv(ctx context.Context, r Run) (RunResult, error) {
	return q.run(ctx, r, fmt.Sprintf("run_recv posted=%d%s", r.Posted, sgeArgs(r.WR.SGEs)))
}

func (q *judgeQP) run(ctx context.Context, r Run, line string) (RunResult, error) {
	cq, ok := r.CQ.(judgeCQ)
	if !ok {
		return RunResult{}, fmt.Errorf("judge %s: Run needs a completion queue of the same judge", q.j.Name())
	}
	got, err := q.j.conn.do(ctx, "%s qp=%d cq=%d count=%d depth=%d stride=%d wait_ms=%d",
		line, q.handle, cq.handle, r.Count, r.Depth, r.Stride, millis(r.Wait))
	if err != nil {
		return RunResult{}, err
	}
	var done, errors, first, late, ns uint64
	err = got.into(map[string]*uint64{"done": &done, "errors": &errors, "first_error": &first, "late": &late, "ns": &ns})
	return RunResult{Done: int(done), Errors: int(errors), FirstError: Status(first), Late: late != 0, Took: time.Duration(ns)}, err
}
