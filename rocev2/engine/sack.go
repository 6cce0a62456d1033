// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// negotiate turns selective acknowledgement on between two engines.
//
// HELLO describes a host, SACK is between queue pairs, and the same host may have queue
// pairs of rxe. A responder that buffers packets behind a gap sends SACK where the standard
// has a NAK; a requester without SACK would detect the loss by its timeout only. So both ends
// check two things: does the peer's host have an
// engine (CAP_SACK), and is the peer's queue pair number one that an engine gives.
// docs/reference/wire-format.md goes through the cases.
func (t *transmitter) negotiate(x *QP) {
	if s := x.q.State(); s == verbs.StateErr || s == verbs.StateReset {
		return // which take no attribute, and have no use for it
	}
	on := x.dest.sack && ofEngine(x.q.Attr().DestQPN)
	if x.q.Modify(verbs.Attr{Selective: on}, verbs.MaskSelective) == nil {
		x.selective = x.dest.sack
	}
}
