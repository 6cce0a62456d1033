// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// receiveUC processes a packet of UC, which has no responses. A message with a missing
// packet, without a receive or with an error is dropped until the next message begins (IBTA
// 9.8.2.2, 9.9.3 class D; rxe does the same). Only a wrong list of the own receive ends the
// connection (class A).
func (r *responder) receiveUC(now Time, p *rocev2.Packet) {
	info := p.Opcode().Info()
	c := r.q.cfg.Count
	if info.Class != rocev2.ClassUC {
		c.Ignored++
		return
	}
	psn := p.BTH().PSN()
	if psn != r.expected {
		c.OutOfSequence++
		r.dropMessage()
	}
	r.expected = psn.Add(1)
	starts := info.Position == rocev2.PosFirst || info.Position == rocev2.PosOnly
	if starts {
		if r.message.op != rocev2.OperationNone { // the last message did not end
			c.Malformed++
			r.message = message{}
		}
		r.dropping = false
	} else if r.dropping {
		return
	}
	switch v, _ := r.execute(p, info); v {
	case accepted:
		c.Delivered++
		if !r.established {
			r.notifyEstablished()
		}
	case notReady:
		c.NoBuffer++
		r.dropMessage()
	case noAccess:
		c.RemoteAccess++
		r.dropMessage()
	case memoryFail:
		c.RemoteOperation++
		r.dropMessage()
	case tooLong:
		c.LocalError++
		r.dropMessage()
	case badBuffer:
		c.LocalError++
		r.abort(now, verbs.StatusLocalProtection, verbs.EventQPFatal)
	default:
		c.Malformed++
		r.dropMessage()
	}
}

// dropMessage drops the message in progress. The next message uses its receive.
func (r *responder) dropMessage() {
	r.dropping = true
	r.message = message{}
}
