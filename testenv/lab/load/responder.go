// SPDX-License-Identifier: Apache-2.0

package load

import "github.com/softroce/softroce-xdp/rocev2"

// Received counts what arrived from one sender's queue pair. A packet is counted
// once: in order, ahead or duplicate.
type Received struct {
	Packets    uint64 // packets in order, hence new
	Bytes      uint64 // payload of those
	Messages   uint64 // complete ones
	Ahead      uint64 // packets beyond a gap: discarded
	Duplicates uint64
	Invalid    uint64 // packets in order, but no sensible next packet of the message
	Mismatches uint64 // packets whose payload is not what belongs there
	ACKs       uint64 // sent
	NAKs       uint64 // sent
}

// responder is the responder of one queue pair. It neither sends nor reads a
// clock.
type responder struct {
	qpn     uint32
	expect  rocev2.PSN
	waiting bool   // a NAK is out: no second one before the gap closes
	va      uint64 // address of the next payload
	left    uint64 // remaining bytes of the present message; 0 between messages
	msn     uint32
	count   Received
}

func newResponder(qpn uint32) *responder {
	return &responder{qpn: qpn, expect: firstPSN(qpn)}
}

// request is what the responder looks at in a packet.
type request struct {
	opcode  rocev2.Opcode
	psn     rocev2.PSN
	ackReq  bool
	reth    rocev2.RETH // nil unless the opcode has one
	payload []byte
}

// reply is the answer to a request; none if send is false.
type reply struct {
	send     bool
	psn      rocev2.PSN
	syndrome rocev2.Syndrome
	msn      uint32
}

// handle takes a request whose ICRC was right.
func (r *responder) handle(q request) reply {
	switch d := q.psn.Diff(r.expect); {
	case d > 0:
		r.count.Ahead++
		if r.waiting {
			return reply{}
		}
		r.waiting = true
		return r.nak(rocev2.NAKPSNSequence)
	case d < 0:
		r.count.Duplicates++
		if !q.ackReq {
			return reply{}
		}
		return r.ack() // of all that has arrived, as a coalesced ACK may say
	}
	if !r.place(q) {
		r.count.Invalid++
		return r.nak(rocev2.NAKInvalidRequest)
	}
	r.waiting = false
	r.expect = r.expect.Add(1)
	r.count.Packets++
	r.count.Bytes += uint64(len(q.payload))
	if !patternMatches(r.qpn, r.va, q.payload) {
		r.count.Mismatches++
	}
	r.va += uint64(len(q.payload))
	r.left -= uint64(len(q.payload))
	if r.left == 0 {
		r.count.Messages++
		r.msn = (r.msn + 1) & rocev2.PSNMask
	}
	if !q.ackReq {
		return reply{}
	}
	return r.ack()
}

// place checks that the packet continues the message, or begins the next one at
// the next address.
func (r *responder) place(q request) bool {
	n := uint64(len(q.payload))
	switch q.opcode {
	case rocev2.RCWriteFirst, rocev2.RCWriteOnly:
		if r.left != 0 || q.reth == nil || q.reth.RKey() != rkeyOf(r.qpn) || q.reth.VA() != r.va {
			return false
		}
		total := uint64(q.reth.DMALen())
		if (q.opcode == rocev2.RCWriteOnly) != (n == total) || n > total {
			return false
		}
		r.left = total
		return true
	case rocev2.RCWriteMiddle:
		return n < r.left
	case rocev2.RCWriteLast:
		return r.left != 0 && n == r.left
	}
	return false
}

func (r *responder) ack() reply {
	r.count.ACKs++
	return reply{true, r.expect.Add(-1), rocev2.SyndromeACK(rocev2.CreditInvalid), r.msn}
}

func (r *responder) nak(code rocev2.NAKCode) reply {
	r.count.NAKs++
	return reply{true, r.expect, rocev2.SyndromeNAK(code), r.msn}
}
