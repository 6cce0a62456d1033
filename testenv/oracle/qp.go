// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

type judgeQP struct {
	object
	service verbs.QPType
	qpn     uint64
}

func (p judgePD) CreateQP(c verbs.QPInit) (verbs.QP, error) {
	send, ok1 := c.SendCQ.(*judgeCQ)
	recv, ok2 := c.RecvCQ.(*judgeCQ)
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("judge %s: the completion queues of a QP must be of the same judge", p.j.Name())
	}
	srq := ""
	if c.SRQ != nil {
		srq = fmt.Sprintf(" srq=%d", c.SRQ.(*judgeSRQ).handle)
	}
	q := &judgeQP{service: c.Type}
	var err error
	q.object, err = p.j.make("qp", map[string]*uint64{"qpn": &q.qpn},
		"qp pd=%d type=%s send_cq=%d recv_cq=%d send_wr=%d recv_wr=%d send_sge=%d recv_sge=%d%s",
		p.handle, lower(c.Type), send.handle, recv.handle, c.MaxSend, c.MaxRecv, max(1, c.MaxSendSGE), max(1, c.MaxRecvSGE), srq)
	if err != nil {
		return nil, err
	}
	p.j.add(q.handle, q)
	return q, nil
}

func (q *judgeQP) QPN() uint32        { return uint32(q.qpn) }
func (q *judgeQP) Type() verbs.QPType { return q.service }

func (q *judgeQP) Modify(a verbs.Attr, mask verbs.AttrMask) error {
	args, err := attrArgs(a, mask)
	if err == nil && mask&verbs.MaskAV != 0 {
		var to string
		to, err = q.j.avArgs(a.AV)
		args += to
	}
	if err == nil {
		_, err = q.j.do("modify qp=%d%s", q.handle, args)
	}
	return err
}

// Query returns the state only.
func (q *judgeQP) Query() (a verbs.Attr, err error) {
	got, err := q.j.do("query qp=%d", q.handle)
	if err != nil {
		return a, err
	}
	name, err := got.text("state")
	for a.State = verbs.StateReset; a.State <= verbs.StateErr; a.State++ {
		if lower(a.State) == name {
			return a, err
		}
	}
	return a, fmt.Errorf("judge %s: QP %d is in a state named %q (%w)", q.j.Name(), q.qpn, name, err)
}

// State is an unknown one if Query fails.
func (q *judgeQP) State() verbs.State {
	a, err := q.Query()
	if err != nil {
		return verbs.StateErr + 1
	}
	return a.State
}

// objectArgs are the objects that a send request names.
func (q *judgeQP) objectArgs(wr *verbs.SendWR) (string, error) {
	switch {
	case wr.AH != nil:
		return fmt.Sprintf(" ah=%d rqpn=%d rqkey=%#x", wr.AH.(judgeAH).handle, wr.RemoteQPN, wr.RemoteQKey), nil
	case wr.Op == verbs.OpBindWindow:
		window := find(q.j, func(w *judgeMW) bool { return w.RKey()>>8 == wr.Bind.Window>>8 })
		region := find(q.j, func(m *judgeMR) bool { return m.LKey() == wr.Bind.Region })
		if window == nil || region == nil {
			return "", fmt.Errorf("judge %s: there is no window %#x or no region %#x", q.j.Name(), wr.Bind.Window, wr.Bind.Region)
		}
		return fmt.Sprintf(" mw=%d mr=%d", window.handle, region.handle), nil
	}
	return "", nil
}

func (q *judgeQP) PostSend(wr *verbs.SendWR) error { return q.postSend([]verbs.SendWR{*wr}) }

func (q *judgeQP) postSend(wrs []verbs.SendWR) error {
	lines := make([]string, len(wrs))
	for i := range wrs {
		objects, err := q.objectArgs(&wrs[i])
		if err != nil {
			return err
		}
		lines[i] = fmt.Sprintf("post_send qp=%d%s%s", q.handle, sendArgs(&wrs[i]), objects)
	}
	return q.j.doAll(lines)
}

func (q *judgeQP) PostRecv(wr *verbs.RecvWR) error { return q.postRecv([]verbs.RecvWR{*wr}) }

func (q *judgeQP) postRecv(wrs []verbs.RecvWR) error {
	return q.j.postRecv(fmt.Sprintf("qp=%d", q.handle), wrs)
}

func (j *Judge) postRecv(queue string, wrs []verbs.RecvWR) error {
	lines := make([]string, len(wrs))
	for i, wr := range wrs {
		lines[i] = fmt.Sprintf("post_recv %s id=%d%s", queue, wr.ID, sglArgs(wr.SGL))
	}
	return j.doAll(lines)
}

// run has the helper post and count the messages of r.
func (q *judgeQP) run(ctx context.Context, r Run, line string) (RunResult, error) {
	cq, ok := r.CQ.(*judgeCQ)
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
	if err != nil {
		return RunResult{}, err
	}
	status, ok := statuses[first]
	if !ok {
		return RunResult{}, fmt.Errorf("judge %s: the first error of a run has status %d, which verbs do not have", q.j.Name(), first)
	}
	return RunResult{Done: int(done), Errors: int(errors), FirstError: status, Late: late != 0, Took: time.Duration(ns)}, nil
}
