// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// End-to-end credits (IBTA 9.7.7.2): no limit before the first AETH with credits, then MSN
// plus credits, and one packet at a time beyond that.
func TestCredits(t *testing.T) {
	x := newSource(t, verbs.RC)
	x.post(verbs.OpSend, 1, 0)
	x.post(verbs.OpSend, 1, 0)
	x.wantSent("0A 1A")
	x.aeth(1, rocev2.SyndromeACK(1), 2) // one credit: message 3 may go
	x.post(verbs.OpSend, 300, 0)
	x.post(verbs.OpWrite, 1, 0)
	x.post(verbs.OpWriteImm, 300, 0)
	x.post(verbs.OpSend, 1, 0)
	x.wantSent("2 3A 4A 5 6A") // the WRITE needs no receive, the last packet of WRITE_IMM does: it is the one beyond
	x.aeth(4, rocev2.SyndromeACK(0), 4)
	x.wantSent("")
	x.aeth(6, rocev2.SyndromeACK(0), 5)
	x.wantSent("7A") // one at a time
	x.aeth(7, noCredits, 6)
	x.post(verbs.OpSend, 1, 0)
	x.post(verbs.OpSend, 1, 0)
	x.wantSent("8A 9A") // not counted any more
	x.ack(9)
	x.wantDone(0, slices.Repeat([]verbs.Status{verbs.StatusSuccess}, 8)...)
}
