// SPDX-License-Identifier: Apache-2.0

package qp

import "testing"

// NextAH returns the destination of the next packet before NextData, and nil without one.
func TestNextAH(t *testing.T) {
	x := newSource(t, UD)
	if x.q.NextAH() != nil {
		t.Error("a handle, and nothing was posted")
	}
	for i := range 3 {
		x.post(OpSend, 4, 0, func(w *SendWR) { w.AH = &AH{QPN: uint32(100 + i), Path: i} })
	}
	for i := range 3 {
		ah := x.q.NextAH()
		if ah == nil || ah.Path != i {
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
	if y := newSource(t, RC); y.q.NextAH() != nil {
		t.Error("a handle of a connection")
	}
}
