// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
)

// verdict is what becomes of a packet that came in turn.
type verdict uint8

const (
	accepted   verdict = iota
	notReady           // no receive posted
	badRequest         // makes no sense here
	tooLong            // more than the receive has room for
	noAccess           // key, range or right
	memoryFail         // the memory behind a good key failed
	badBuffer          // the receive's own list is wrong
)

// verdictOf is the verdict on a remote access that the memory refused.
func verdictOf(f mem.Fault) verdict {
	switch f {
	case mem.FaultNone:
		return accepted
	case mem.FaultAlign:
		return badRequest
	case mem.FaultBackend:
		return memoryFail
	}
	return noAccess
}

// fatalNAKs says what a verdict ends in (IBTA 9.9.3, classes A and C).
var fatalNAKs = [...]struct {
	code   rocev2.NAKCode
	status Status // of the receive that was being filled
	event  Event  // if there was none
}{
	badRequest: {rocev2.NAKInvalidRequest, RemoteInvalidRequest, EventRequest},
	tooLong:    {rocev2.NAKInvalidRequest, LocalLength, EventRequest},
	noAccess:   {rocev2.NAKRemoteAccess, RemoteAccess, EventAccess},
	memoryFail: {rocev2.NAKRemoteOp, RemoteOperation, EventFatal},
	badBuffer:  {rocev2.NAKRemoteOp, LocalProtection, EventFatal},
}

// reject answers the packet in turn, which was not accepted. All but an RNR NAK end
// the connection: the NAK leaves, then nothing more.
func (r *responder) reject(now Time, v verdict) {
	c := r.q.cfg.Count
	switch v {
	case notReady:
		c.RNRSent++
		r.ack.setNAK(rocev2.SyndromeRNR(r.q.attr.MinRNRTimer), r.expected, r.msn)
		return
	case badRequest:
		c.Malformed++
	case tooLong, badBuffer:
		c.LocalError++
	}
	end := &fatalNAKs[v]
	r.setFatalNAK(end.code, r.expected, r.msn)
	r.abort(now, end.status, end.event)
}

// setFatalNAK decides on a NAK that ends the connection.
func (r *responder) setFatalNAK(code rocev2.NAKCode, psn rocev2.PSN, msn uint32) {
	c := r.q.cfg.Count
	switch code {
	case rocev2.NAKInvalidRequest:
		c.InvalidRequest++
	case rocev2.NAKRemoteAccess:
		c.RemoteAccess++
	case rocev2.NAKRemoteOp:
		c.RemoteOperation++
	}
	r.ack.setNAK(rocev2.SyndromeNAK(code), psn, msn)
}

// abort ends the connection. If a receive was being filled, its completion says
// why, else the event (IBTA 11.6.3).
func (r *responder) abort(now Time, st Status, e Event) {
	if r.buf.taken {
		r.completeError(st)
		e = 0
	}
	r.q.fail(now, e)
}
