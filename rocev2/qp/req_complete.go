// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2/verbs"

// retire completes the work requests that are done, in order (IBTA 10.8.5). The first
// failed one ends the connection.
func (r *requester) retire(now Time) {
	for r.head != r.tail {
		w := r.at(r.head)
		switch {
		case w.status != verbs.StatusSuccess:
			r.abort(now)
			return
		case w.packets == 0 || w.isRead():
			if !w.done {
				r.notifyDrained()
				return
			}
		case w.end() > r.sndUna:
			r.notifyDrained()
			return
		}
		if r.cur == r.head { // a local operation that rewind went back to
			r.cur++
		}
		r.take()
		r.complete(w)
	}
	r.idle(now)
}

// idle is called when the queue may have become empty.
func (r *requester) idle(now Time) {
	r.rto.dueSince = now
	r.notifyDrained()
}

// notifyDrained reports EventQPDrained once, when nothing is outstanding in SQD (IBTA
// 10.3.1).
func (r *requester) notifyDrained() {
	if !r.draining || r.q.state != verbs.StateSQD || r.sndUna != r.sndMax || r.reads.n != 0 {
		return
	}
	if r.head != r.tail && r.at(r.head).first < r.sndMax {
		return
	}
	r.draining = false
	r.q.notify(verbs.EventQPDrained)
}

// complete puts the completion of w on the completion queue, if w asks for one. Errors
// always have a completion (IBTA 10.7.3.1).
func (r *requester) complete(w *wqe) {
	cfg := &r.q.cfg
	if w.status == verbs.StatusSuccess && w.flags&verbs.Signaled == 0 && !cfg.SignalAll {
		return
	}
	c := verbs.Completion{WRID: w.id, QPN: cfg.QPN, Status: w.status, Op: w.op}
	if w.status == verbs.StatusWRFlushed {
		cfg.Count.Flushed++
	}
	if w.isRead() && w.status == verbs.StatusSuccess {
		c.Bytes = w.length
	}
	if w.internal {
		w.x.sink.Complete(c)
		return
	}
	cfg.SendCQ.Complete(c)
}

// fault ends w with a status of the requester's own, after the work requests before w are
// done.
func (r *requester) fault(now Time, w *wqe, status verbs.Status) {
	r.q.cfg.Count.LocalError++
	w.status = status
	r.haltAt = min(r.haltAt, w.first)
	if r.q.cfg.Type == verbs.RC {
		r.retire(now)
		return
	}
	// UC and UD go from RTS to SQE, not to ERR (IBTA 10.3.1).
	if r.q.state == verbs.StateRTS {
		r.q.state = verbs.StateSQE
	}
	r.flush(now)
}

// flush completes all work requests in the queue, in order: failed ones with their status,
// the others as flushed (IBTA 10.3.1). PSNs continue.
func (r *requester) flush(now Time) {
	for r.head != r.tail {
		w := r.take()
		if w.status == verbs.StatusSuccess {
			w.status = verbs.StatusWRFlushed
		}
		r.complete(w)
	}
	r.setGone(0)
	ssn := r.ssn
	*r = requester{q: r.q, sndUna: r.sndMax, sndNxt: r.sndMax, sndMax: r.sndMax}
	r.begin(ssn)
}
