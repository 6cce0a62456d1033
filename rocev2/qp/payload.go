// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2/mem"

// fillPayload reads the data of a packet. If the sender's own memory does not allow
// it, the work request ends with a local protection error once those before it are
// done, and nothing from it on is sent (IBTA 9.9.2; rxe does the same).
func (r *requester) fillPayload(o *Outbound, dst []byte) bool {
	w := r.at(o.wqe)
	if f := r.gather(w, o.off, dst); f != mem.FaultNone {
		r.fault(r.now, w, faultStatus(f))
		return false
	}
	r.handedOut(w)
	return true
}

func (r *requester) dropPayload(o *Outbound) { r.handedOut(r.at(o.wqe)) }

// handedOut completes a message of UC or UD, which is done when its last packet is
// off, wherever that ends (IBTA 9.8.2, 9.8.3).
func (r *requester) handedOut(w *wqe) {
	if r.q.cfg.Type != RC && r.nxt == w.end() {
		r.left(r.now)
	}
}

// faultStatus is the status of a work request whose own list was refused.
func faultStatus(f mem.Fault) Status {
	if f == mem.FaultBackend {
		return LocalQPOperation
	}
	return LocalProtection
}

// gather copies what stands at off in the message to dst.
func (r *requester) gather(w *wqe, off uint32, dst []byte) mem.Fault {
	cfg := &r.q.cfg
	switch {
	case w.flags&Inline != 0:
		copy(dst, w.x.data[off:])
		return mem.FaultNone
	case !w.listed:
		return cfg.Memory.ReadLocal(cfg.PD, w.sge.LKey, w.sge.Addr+uint64(off), dst)
	}
	for _, s := range w.x.sgl {
		if off >= s.Len {
			off -= s.Len
			continue
		}
		n := min(len(dst), int(s.Len-off))
		if f := cfg.Memory.ReadLocal(cfg.PD, s.LKey, s.Addr+uint64(off), dst[:n]); f != mem.FaultNone {
			return f
		}
		if dst, off = dst[n:], 0; len(dst) == 0 {
			break
		}
	}
	return mem.FaultNone
}

// scatter copies src to where off in the message goes.
func (r *requester) scatter(w *wqe, off uint32, src []byte) mem.Fault {
	cfg := &r.q.cfg
	if len(src) == 0 {
		return mem.FaultNone
	}
	if !w.listed {
		return cfg.Memory.WriteLocal(cfg.PD, w.sge.LKey, w.sge.Addr+uint64(off), src)
	}
	for _, s := range w.x.sgl {
		if off >= s.Len {
			off -= s.Len
			continue
		}
		n := min(len(src), int(s.Len-off))
		if f := cfg.Memory.WriteLocal(cfg.PD, s.LKey, s.Addr+uint64(off), src[:n]); f != mem.FaultNone {
			return f
		}
		if src, off = src[n:], 0; len(src) == 0 {
			break
		}
	}
	return mem.FaultNone
}
