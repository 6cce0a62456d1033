// SPDX-License-Identifier: Apache-2.0

package qp

import "testing"

// Fence waits for the data of READs and ATOMICs, MaxRdAtomic for the oldest.
func TestFenceAndLimit(t *testing.T) {
	x := newSource(t, RC)
	x.post(OpRead, 1, 0)
	x.post(OpWrite, 1, 0)
	x.post(OpWrite, 1, Fence)
	x.wantSent("0A 1A")
	x.response(0, 0, 1, 1)
	x.wantSent("2A")
	x.ack(2)
	x.wantDone(0, Success, Success, Success)

	for range 3 { // MaxRdAtomic is 2
		x.post(OpFetchAdd, 8, 0)
	}
	x.wantSent("3A 4A")
	x.atomic(4, 0) // the second alone does not make room: the peer counts in order
	x.wantSent("3A!")
	x.atomic(3, 0)
	x.wantSent("5A")
	x.wantDone(3, Success, Success)
}
