// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The queue pairs of one peer share its part of the memory for packets behind gaps. Those of another peer have another
// part, and none has the whole.
func TestReorderShareOfPeer(t *testing.T) {
	d, err := OpenLoopback(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	pd, _ := d.AllocPD()
	cq, _ := d.CreateCQ(16)
	pools := map[*qp.ReorderPool]int{}
	for _, addr := range loopbackGIDs {
		x, y := loopbackPair(t, pd, cq, addr)
		for _, q := range []verbs.QP{x, y} {
			d.InLoop(func() {
				if pool := q.(*QP).q.Config().Reorder; pool == nil || pool == d.eng.reorder {
					t.Errorf("a queue pair to %s has the whole pool, or none", addr)
				} else {
					pools[pool]++
				}
			})
		}
	}
	if len(pools) != len(loopbackGIDs) {
		t.Errorf("%d shares of %d peers", len(pools), len(loopbackGIDs))
	}
}
