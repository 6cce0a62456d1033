// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2"

const ssnMask = 1<<24 - 1

// credit is end-to-end flow control (IBTA 9.7.7.2): the responder's AETHs say how
// many receives it has beyond the messages that it has completed. Messages are
// numbered from 1 (SSN); its MSN is the last completed, and MSN plus credits the
// last that may be sent if it takes a receive. Beyond that, one packet at a time
// may be, so that there is an answer with new credits.
//
// Nothing is limited before the first AETH that counts credits, and if they are 31,
// invalid, which is all that rxe sends.
type credit struct {
	limit   uint32 // last SSN that may be sent
	counted bool
	limited bool // packet at is the one at a time
	at      uint64
}

// onAETH takes the AETH of a positive answer.
func (c *credit) onAETH(h rocev2.AETH) {
	n, ok := h.Syndrome().Credits()
	c.counted = ok
	c.limit = (h.MSN() + uint32(n)) & ssnMask
}

// covers reports whether message ssn may be sent as far as credits go.
func (c *credit) covers(ssn uint32) bool {
	return !c.counted || rocev2.PSN(ssn).Diff(rocev2.PSN(c.limit)) <= 0
}

// takesReceive tells packets that need a receive at the peer: all of a SEND, the
// last of a WRITE with immediate.
func (w *wqe) takesReceive(n uint64) bool {
	switch w.op {
	case OpSend, OpSendImm, OpSendInv:
		return true
	case OpWriteImm:
		return n+1 == w.end()
	}
	return false
}
