// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Local operations run in order. LOCAL_INV follows all earlier work requests, a bind does
// not.
func TestLocalOperations(t *testing.T) {
	x := newSource(t, verbs.RC)
	x.m.add(0x99, 0, 16, allRights)
	x.post(verbs.OpWrite, 1, 0)
	x.post(verbs.OpLocalInv, 0, 0)
	x.post(verbs.OpWrite, 1, 0)
	x.wantSent("0A")
	if x.m.regions[0x99].gone {
		t.Error("LOCAL_INV ran before the WRITE was acknowledged")
	}
	x.ack(0)
	x.wantDone(0, verbs.StatusSuccess)
	x.wantSent("1A")
	x.wantDone(1, verbs.StatusSuccess)
	if !x.m.regions[0x99].gone {
		t.Error("LOCAL_INV did nothing")
	}
	x.ack(1)
	x.wantDone(2, verbs.StatusSuccess)

	x.post(verbs.OpBindWindow, 0, 0) // testMemory refuses it
	x.post(verbs.OpWrite, 1, 0)
	x.wantSent("")
	x.wantDone(3, verbs.StatusMWBindError, verbs.StatusWRFlushed)
	x.wantState(verbs.StateErr)
}
