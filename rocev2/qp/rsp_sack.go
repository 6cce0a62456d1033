// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2"

// sackEvery is the number of out-of-order packets after which a SACK is due.
const sackEvery = 4

// sack writes a SACK: the cumulative ACK of upTo and a bitmap of the buffered packets. The
// rules for the order of ACKs and READ responses apply to it too.
func (r *responder) sack(out *Outbound, upTo rocev2.PSN) {
	var hi, lo uint64
	for i := 1; i < sackWindow; i++ {
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
