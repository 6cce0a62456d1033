// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// verdict is the result of the execution of an expected packet.
type verdict uint8

const (
	accepted   verdict = iota
	notReady           // no receive posted
	badRequest         // opcode, length or attribute not allowed here
	tooLong            // longer than the receive
	noAccess           // wrong key, range or right
	memoryFail         // the memory of a valid key failed
	badBuffer          // the receive's own list is wrong
)

// verdictOf returns the verdict for a fault of a remote access.
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

// fatalNAKs are the consequences of each verdict (IBTA 9.9.3, classes A and C).
var fatalNAKs = [...]struct {
	code   rocev2.NAKCode
	status verbs.Status    // status of the receive in progress
	event  verbs.EventType // event if no receive is in progress
}{
	badRequest: {rocev2.NAKInvalidRequest, verbs.StatusRemoteInvalidRequest, verbs.EventQPRequest},
	tooLong:    {rocev2.NAKInvalidRequest, verbs.StatusLocalLength, verbs.EventQPRequest},
	noAccess:   {rocev2.NAKRemoteAccess, verbs.StatusRemoteAccess, verbs.EventQPAccess},
	memoryFail: {rocev2.NAKRemoteOp, verbs.StatusRemoteOperation, verbs.EventQPFatal},
	badBuffer:  {rocev2.NAKRemoteOp, verbs.StatusLocalProtection, verbs.EventQPFatal},
}

// reject responds to an expected packet that was not accepted. All but an RNR NAK end the
// connection: nothing leaves after the NAK.
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

// setFatalNAK counts and sets a NAK that ends the connection.
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

// abort ends the connection. The completion of the receive in progress has the reason. If
// there is none, the event has it (IBTA 11.6.3).
func (r *responder) abort(now Time, st verbs.Status, e verbs.EventType) {
	if r.buf.taken {
		r.completeError(st)
		e = 0
	}
	r.q.fail(now, e)
}
