// SPDX-License-Identifier: Apache-2.0

package ooo

import "github.com/softroce/softroce-xdp/rocev2"

// answer is an entry of the response queue: the response to one packet.
type answer struct {
	op        rocev2.Opcode
	code      rocev2.ONakCode
	congested bool
	port      uint16 // the path of the packet; the response takes it, too
	rail      uint8  // also
	psn       rocev2.PSN
	message   uint32
	echoUs    uint32
	oeth      rocev2.OETHFields // of an OREAD_REQ
}

// responseQueue is the response queue: responses without data, and those with data, which are
// paced. If it is full a response is lost, which its source finds out by time.
type responseQueue struct {
	acks  fifo[answer]
	reads []fifo[answer] // of each rail
}

func (b *responseQueue) init(c *Config) {
	b.acks.limit = c.Responses
	b.reads = make([]fifo[answer], c.Rails)
	for i := range b.reads {
		b.reads[i].limit = c.Responses
	}
}

func (b *responseQueue) put(c *Counters, a answer) bool {
	f := &b.acks
	if a.op == rocev2.OpOReadResp {
		f = &b.reads[a.rail]
	}
	if !f.push(a) {
		c.NoRoom++
		return false
	}
	return true
}

// hasRead reports whether the response to the OREAD_REQ with this PSN is queued.
func (b *responseQueue) hasRead(psn rocev2.PSN) bool {
	for rail := range b.reads {
		for i := range b.reads[rail].n {
			if b.reads[rail].at(i).psn == psn {
				return true
			}
		}
	}
	return false
}
