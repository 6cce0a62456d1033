// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// NextAH returns the destination of the next packet before NextData, and nil without one.
func TestNextAH(t *testing.T) {
	x := newSource(t, verbs.UD)
	if x.q.NextAH() != nil {
		t.Error("a handle, and nothing was posted")
	}
	for i := range 3 {
		x.post(verbs.OpSend, 4, 0, func(w *verbs.SendWR) { w.AH, w.RemoteQPN = testAH(i), uint32(100+i) })
	}
	for i := range 3 {
		ah := x.q.NextAH()
		if ah != testAH(i) {
			t.Fatalf("packet %d: %+v", i, ah)
		}
		if !x.q.NextData(x.now, &x.out) || x.out.AH != ah || x.out.DestQP != uint32(100+i) {
			t.Fatalf("packet %d went to %#x", i, x.out.DestQP)
		}
		x.out.Drop()
	}
	if x.q.NextAH() != nil {
		t.Error("a handle, and all is sent")
	}
	if y := newSource(t, verbs.RC); y.q.NextAH() != nil {
		t.Error("a handle of a connection")
	}
}
