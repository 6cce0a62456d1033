// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2"

// responder is the receive queue and everything that the peer's requester asks.
type responder struct {
	q    *QP
	turn bool // NextData asks the responder first
}

// SRQ is a shared receive queue.
type SRQ struct{}

func (r *responder) post(wr *RecvWR) error                    { return nil }
func (r *responder) receive(now Time, p *rocev2.Packet)       {}
func (r *responder) nextAck(now Time, out *Outbound) bool     { return false }
func (r *responder) nextRead(now Time, out *Outbound) bool    { return false }
func (r *responder) deadline() Time                           { return 0 }
func (r *responder) expire(now Time)                          {}
func (r *responder) flush(now Time)                           {}
func (r *responder) fillPayload(o *Outbound, dst []byte) bool { return false }
