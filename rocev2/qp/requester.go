// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2"

// requester is the send queue: what was posted, what is on its way, what was
// answered. It speaks to responder of the peer.
type requester struct {
	q *QP
}

func (r *requester) post(wr *SendWR) error                    { return nil }
func (r *requester) receive(now Time, p *rocev2.Packet)       {}
func (r *requester) next(now Time, out *Outbound) bool        { return false }
func (r *requester) deadline() Time                           { return 0 }
func (r *requester) expire(now Time)                          {}
func (r *requester) flush(now Time)                           {}
func (r *requester) fillPayload(o *Outbound, dst []byte) bool { return false }
