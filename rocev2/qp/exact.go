// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2"

// ReceiveExact is Receive for a packet that may be forged: nothing but addresses and queue pair number
// say that it is the peer's. Such a packet takes effect only with a PSN that this queue pair waits for.
//
//   - A request of RC with a PSN ahead of the expected one is not buffered (rsp_reorder.go). It causes a
//     NAK only if the peer has no selective acknowledgement: a standard requester (rxe) needs it to
//     repeat what was lost, a softroce requester has its timers.
//   - READ responses are stored in order. One with a later PSN reveals a loss, and its data is dropped.
//   - A NAK or SACK must name a packet that is outstanding. An ACK may repeat the last one, which changes
//     nothing but the credits of the peer (IBTA 9.7.7.2).
//
// A request that was executed before is answered again, as always (IBTA 9.7.5.1): the first answer may
// have been lost. UC and UD have no such rule. A receiver of UC continues with any PSN after a loss
// (IBTA 9.8.2.2), and one of UD does not compare PSNs.
func (q *QP) ReceiveExact(now Time, p *rocev2.Packet) {
	q.exact = true
	q.Receive(now, p)
	q.exact = false
}

// outside reports whether a NAK or SACK that ReceiveExact takes is about packet n, which is not outstanding.
func (r *requester) outside(n int64) bool {
	return r.q.exact && n < int64(r.oldestOutstanding())
}

// storesResponse reports whether packet at of a READ response may be stored. If not, the response only
// shows that the packets before at are missing.
func (r *requester) storesResponse(w *wqe, at uint32) bool {
	return !r.q.exact || at == w.received
}

// skipResponse notes a READ response that was not stored: what is missing up to it is requested again.
func (r *requester) skipResponse(now Time, w *wqe, at uint32) {
	w.highest = max(w.highest, at+1)
	r.updateRequest(now, w)
}
