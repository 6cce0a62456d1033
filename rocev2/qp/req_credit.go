// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const ssnMask = 1<<24 - 1

// credit is end-to-end flow control (IBTA 9.7.7.2). The responder's AETHs carry the number
// of receives that are posted beyond the messages completed. Messages are numbered from 1
// (SSN). The MSN is the number of the last completed message. MSN plus credits is the last
// message that may be sent if it takes a receive. Beyond that one packet at a time may be
// sent, so that a response carries new credits.
//
// Nothing is limited before the first AETH with credits, and while the credits are 31,
// invalid. rxe sends no other value.
type credit struct {
	limit   uint32 // last SSN that may be sent
	counted bool
	limited bool // packet at is the one beyond the credits
	at      uint64
}

// onAETH stores the credits of a positive response.
func (c *credit) onAETH(h rocev2.AETH) {
	n, ok := h.Syndrome().Credits()
	c.counted = ok
	c.limit = (h.MSN() + uint32(n)) & ssnMask
}

// covers reports whether credits allow message ssn.
func (c *credit) covers(ssn uint32) bool {
	return !c.counted || rocev2.PSN(ssn).Diff(rocev2.PSN(c.limit)) <= 0
}

// takesReceive reports whether packet n needs a receive at the peer: all packets of a
// SEND, the last packet of a WRITE with immediate.
func (w *wqe) takesReceive(n uint64) bool {
	switch w.op {
	case verbs.OpSend, verbs.OpSendImm, verbs.OpSendInv:
		return true
	case verbs.OpWriteImm:
		return n+1 == w.end()
	}
	return false
}
