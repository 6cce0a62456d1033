// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A PSN means the packet nearest to sndUna, also far from 0.
func TestPacketNumbers(t *testing.T) {
	x := newSource(t, verbs.RC)
	r := &x.q.req
	for _, taken := range []uint64{0, 1, 1 << 23, 1<<24 - 1, 1 << 24, 1<<24 + 1, 5<<24 + 12345} {
		r.sndUna = taken
		for _, d := range []int64{0, 1, -1, 100, -100, 1<<23 - 1, -1 << 23} {
			n := int64(taken) + d
			if got := r.unwrapPSN(r.psn(uint64(n))); got != n {
				t.Errorf("around %d: packet %d is taken for %d", taken, n, got)
			}
		}
	}
}
