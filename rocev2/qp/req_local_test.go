// SPDX-License-Identifier: Apache-2.0

package qp

import "testing"

// Local operations run in order. LOCAL_INV follows all earlier work requests, a bind does
// not.
func TestLocalOperations(t *testing.T) {
	x := newSource(t, RC)
	x.m.add(0x99, 0, 16, allRights)
	x.post(OpWrite, 1, 0)
	x.post(OpLocalInv, 0, 0)
	x.post(OpWrite, 1, 0)
	x.wantSent("0A")
	if x.m.regions[0x99].gone {
		t.Error("LOCAL_INV ran before the WRITE was acknowledged")
	}
	x.ack(0)
	x.wantDone(0, Success)
	x.wantSent("1A")
	x.wantDone(1, Success)
	if !x.m.regions[0x99].gone {
		t.Error("LOCAL_INV did nothing")
	}
	x.ack(1)
	x.wantDone(2, Success)

	x.post(OpBindWindow, 0, 0) // testMemory refuses it
	x.post(OpWrite, 1, 0)
	x.wantSent("")
	x.wantDone(3, MWBindError, WRFlushed)
	x.wantState(Err)
}
