// SPDX-License-Identifier: Apache-2.0

package ooo

import "github.com/softroce/softroce-xdp/rocev2"

// answer is an entry of the response queue: the response to one packet.
type answer struct {
	op        rocev2.Opcode
	code      rocev2.ONakCode
	congested bool
	port      uint16 // the path of the packet; the response takes it, too
	rail      uint8  // number of the rail of the answer
	psn       rocev2.PSN
	message   uint32
	echoUs    uint32
	oeth      rocev2.OETHFields // header of an OREAD_REQ
	own       bool              // an OACK of a retransmission or a duplicate: its echo tells which one arrived
}

// responseQueue is the response queue: responses without data, and those with data, which are
// paced. If it is full a response is lost, which its source finds out by time.
type responseQueue struct {
	acks  fifo[answer]
	reads []fifo[answer] // READs of each rail
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

// mergeDepth is how many of the last responses are searched for one of the same path. A source sends the
// packets of a moment on few paths.
const mergeDepth = 16

// putOAck queues an OACK, in place of an earlier one that it contains. base is the first PSN that has not
// arrived.
func (b *responseQueue) putOAck(c *Counters, a answer, base rocev2.PSN) {
	for i := range min(b.acks.n, mergeDepth) {
		if e := b.acks.at(b.acks.n - 1 - i); e.port == a.port && e.op == rocev2.OpOAck {
			if e.containedIn(&a, base) {
				a.congested = a.congested || e.congested
				*e = a
				c.Merged++
				return
			}
			break
		}
	}
	b.put(c, a)
}

// containedIn reports whether a later OACK of the same path makes this one needless: its bitmap or its
// cumulative PSN has the packet, and its echo is that of a packet that was sent later. A packet that was
// overtaken on its path, and one that was sent more than once, have an OACK of their own: the source learns
// from its echo whether a loss was spurious.
func (a *answer) containedIn(later *answer, base rocev2.PSN) bool {
	return !a.own && !later.own && later.psn.After(a.psn) && (a.psn&^63 == later.psn&^63 || a.psn.Before(base))
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
