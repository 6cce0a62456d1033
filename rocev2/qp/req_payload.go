// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// fillPayload reads the data of a packet. If the sender's own memory does not allow it,
// the work request ends with a local protection error after those before it are done. Its
// packets and all later ones are not sent (IBTA 9.9.2; rxe does the same).
func (r *requester) fillPayload(o *Outbound, dst []byte) bool {
	w := r.at(o.wqe)
	if f := r.gather(w, o, dst); f != mem.FaultNone {
		r.fault(r.now, w, faultStatus(f))
		return false
	}
	r.payloadTaken(w)
	return true
}

func (r *requester) dropPayload(o *Outbound) { r.payloadTaken(r.at(o.wqe)) }

// payloadTaken completes a message of UC or UD, which is done when its last packet has been
// sent (IBTA 9.8.2, 9.8.3).
func (r *requester) payloadTaken(w *wqe) {
	if r.q.cfg.Type != verbs.RC && r.sndNxt == w.end() {
		r.completeUnreliable(r.now)
	}
}

// faultStatus returns the status of a work request whose own list was refused.
func faultStatus(f mem.Fault) verbs.Status {
	if f == mem.FaultBackend {
		return verbs.StatusLocalQPOperation
	}
	return verbs.StatusLocalProtection
}

// gather puts the message's data at o.off into dst.
func (r *requester) gather(w *wqe, o *Outbound, dst []byte) mem.Fault {
	cfg, off := &r.q.cfg, o.off
	switch {
	case w.flags&verbs.Inline != 0:
		copy(dst, w.x.data[off:])
		return mem.FaultNone
	case !w.sglInExtra:
		return o.readLocal(cfg.Memory, cfg.PD, w.sge.LKey, w.sge.Addr+uint64(off), dst)
	}
	return w.x.each(off, len(dst), func(e *verbs.SGE, at uint64, n int) (f mem.Fault) {
		f = cfg.Memory.ReadLocal(cfg.PD, e.LKey, at, dst[:n])
		dst = dst[n:]
		return f
	})
}

// scatter copies src to offset off of the message.
func (r *requester) scatter(w *wqe, off uint32, src []byte) mem.Fault {
	cfg := &r.q.cfg
	if len(src) == 0 {
		return mem.FaultNone
	}
	if !w.sglInExtra {
		return cfg.Memory.WriteLocal(cfg.PD, w.sge.LKey, w.sge.Addr+uint64(off), src)
	}
	return w.x.each(off, len(src), func(e *verbs.SGE, at uint64, n int) (f mem.Fault) {
		f = cfg.Memory.WriteLocal(cfg.PD, e.LKey, at, src[:n])
		src = src[n:]
		return f
	})
}

// each calls f for the pieces of the list that hold n bytes from off on. It stops at the
// first fault.
func (x *extra) each(off uint32, n int, f func(e *verbs.SGE, at uint64, n int) mem.Fault) mem.Fault {
	for i := 0; n > 0 && i < len(x.sgl); i++ {
		e := &x.sgl[i]
		if off >= e.Len {
			off -= e.Len
			continue
		}
		step := min(n, int(e.Len-off))
		if fault := f(e, e.Addr+uint64(off), step); fault != mem.FaultNone {
			return fault
		}
		n, off = n-step, 0
	}
	return mem.FaultNone
}
