// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// local runs a local operation, the one at cur. It returns false if the operation must
// wait (localLimit) or failed.
func (r *requester) local(now Time, w *wqe) bool {
	if r.localLimit(w, r.head == r.cur) != NotLimited {
		return false
	}
	cfg := &r.q.cfg
	var f mem.Fault
	if w.op == verbs.OpLocalInv {
		f = cfg.Memory.InvalidateLocal(cfg.PD, cfg.QPN, w.imm)
	} else {
		f = cfg.Memory.BindWindow(cfg.PD, cfg.QPN, w.x.bind)
	}
	if f != mem.FaultNone {
		// Verbs has one status for failed memory management (IBTA 11.6.2).
		r.fault(now, w, verbs.StatusMWBindError)
		return false
	}
	w.done = true
	r.cur++
	r.retire(now)
	return true
}
