// SPDX-License-Identifier: Apache-2.0

package ooo

import "github.com/softroce/softroce-xdp/rocev2"

// answer is an entry of the response queue: the response to one packet.
type answer struct {
	op        rocev2.Opcode
	code      rocev2.ONakCode
	congested bool
	port      uint16 // the path of the packet; the response takes it, too
	psn       rocev2.PSN
	message   uint32
	echoUs    uint32
	oeth      rocev2.OETHFields // of an OREAD_REQ
}

// responseQueue is the response queue: responses without data, and those with data, which are
// paced. If it is full a response is lost, which its source finds out by time.
type responseQueue struct {
	acks  fifo[answer]
	reads fifo[answer]
}

func (b *responseQueue) init(limit int) { b.acks.limit, b.reads.limit = limit, limit }

func (b *responseQueue) put(c *Counters, a answer) bool {
	f := &b.acks
	if a.op == rocev2.OpOReadResp {
		f = &b.reads
	}
	if !f.push(a) {
		c.NoRoom++
		return false
	}
	return true
}

// hasRead reports whether the response to the OREAD_REQ with this PSN is queued.
func (b *responseQueue) hasRead(psn rocev2.PSN) bool {
	for i := range b.reads.n {
		if b.reads.at(i).psn == psn {
			return true
		}
	}
	return false
}
