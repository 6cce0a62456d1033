// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The queue pairs of one peer share its part of the memory for packets behind gaps. Those of another peer have another
// part, and none has the whole.
func TestReorderShareOfPeer(t *testing.T) {
	l := newLoopback(t, 1)
	pools := map[*qp.ReorderPool]int{}
	for i, addr := range []netip.Addr{us, us, alien, alien} {
		x := &QP{}
		if err := l.e.AddQP(x, l.config(verbs.RC, 1)); err != nil {
			t.Fatal(err)
		}
		attr := verbs.DefaultAttr()
		attr.PMTU = rocev2.PMTU1024
		if err := verbs.Connect(pathTo{x, own(addr)}, verbs.Endpoint{}, verbs.Endpoint{QPN: x.num}, attr); err != nil {
			t.Fatal(err)
		}
		if pool := x.q.Config().Reorder; pool == nil || pool == l.e.reorder {
			t.Errorf("queue pair %d has the whole pool, or none", i)
		} else {
			pools[pool]++
		}
	}
	if len(pools) != 2 {
		t.Errorf("%d shares of 2 peers", len(pools))
	}
}

// The share of a peer is one of the pool that the program has given the core.
func TestReorderPoolOfProgram(t *testing.T) {
	pool := qp.NewReorderPool(3)
	e := New(Config{Host: &testHost{}, Rails: []RailConfig{{MTU: 1500}}, Reorder: pool})
	if e.reorder != pool {
		t.Error("the core has another pool")
	}
}

// pathTo is a queue pair with a path for its connection.
type pathTo struct {
	*QP
	path *Path
}

// Modify implements verbs.Modifier.
func (x pathTo) Modify(a verbs.Attr, mask verbs.AttrMask) error {
	path := x.path
	if a.State != verbs.StateRTR {
		path = nil
	}
	_, err := x.core.Modify(x.QP, &a, mask, path)
	return err
}
