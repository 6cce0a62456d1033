// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2/mem"

// local runs a local operation in its turn; false if that has not come, or it
// failed. LOCAL_INV waits for all work requests before it, whose data it may
// take away (IBTA 10.8.3; rxe does the same), a bind only with Fence.
func (r *requester) local(now Time, w *wqe) bool {
	cfg := &r.q.cfg
	if r.q.state == SQD {
		return false
	}
	var f mem.Fault
	switch {
	case w.op == OpLocalInv && r.head != r.cur, w.flags&Fence != 0 && r.reads.n != 0:
		return false
	case w.op == OpLocalInv:
		f = cfg.Memory.InvalidateLocal(cfg.PD, cfg.QPN, w.imm)
	default:
		f = cfg.Memory.BindWindow(cfg.PD, cfg.QPN, w.x.bind)
	}
	if f != mem.FaultNone {
		// Verbs has one status for failed memory management (IBTA 11.6.2).
		r.fault(now, w, MWBindError)
		return false
	}
	w.done = true
	r.cur++
	r.retire(now)
	return true
}
