// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2"

// Outbound is one packet to send. The queue pair sets the transport fields of the
// Datagram that its opcode has; the engine sets the addresses and everything of
// IP, keeps one Outbound and uses it again and again.
//
// The payload is not in Datagram.Payload: the engine makes room for PayloadLen
// bytes behind the headers and calls Fill (or Drop), so that data is copied once, from
// memory into the frame.
type Outbound struct {
	rocev2.Datagram
	PayloadLen int    // bytes without pad
	Again      bool   // sent before: a retransmission
	Lost       bool   // and the peer has told that something is lost: not if it only is silent, or was not ready
	Missed     uint16 // of ours, as this packet shows: not with a READ request, whose answer was lost
	AH         *AH    // UD; else nil

	fill filler
	wqe  uint32 // which work request, for the filler
	off  uint32 // where in its data
}

// filler is the half of a queue pair that a packet's payload comes from.
type filler interface {
	fillPayload(o *Outbound, dst []byte) bool
	dropPayload(o *Outbound)
}

// Fill copies the payload to dst, which must be PayloadLen long. False means that
// the memory behind it is not accessible (any more): the packet must not be sent,
// and the queue pair has already drawn its conclusions. Nothing may happen to the
// queue pair between Next and Fill.
func (o *Outbound) Fill(dst []byte) bool {
	return len(dst) == 0 || o.fill.fillPayload(o, dst)
}

// Drop is called instead of Fill for a packet that does not leave: there is no way to
// its receiver, or no memory. The queue pair takes it for sent and lost.
func (o *Outbound) Drop() {
	if o.PayloadLen != 0 {
		o.fill.dropPayload(o)
	}
}
