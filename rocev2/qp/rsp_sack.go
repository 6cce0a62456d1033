// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2"

// sackEvery is how many packets beyond a gap one SACK reports.
const sackEvery = 4

// sack writes a SACK: all up to upTo has arrived, and what is kept beyond it. It is an
// ACK too: what goes for ACKs and READ responses goes for it.
func (r *responder) sack(out *Outbound, upTo rocev2.PSN) {
	var hi, lo uint64
	for i := 1; i < reorderWindow; i++ {
		if !r.reorder.has(r.expected.Add(i)) {
			continue
		}
		if i < 64 {
			lo |= 1 << i
		} else {
			hi |= 1 << (i - 64)
		}
	}
	r.reorder.sinceSACK = 0
	r.q.cfg.Count.SACKSent++
	r.writeResponse(out, rocev2.OpSACK, upTo, noCredits, r.msn)
	out.SACKHi, out.SACKLo = hi, lo
}
