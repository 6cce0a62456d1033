// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"fmt"
	"log"
	"time"

	"github.com/softroce/softroce-xdp/mempool/lease"
)

// A node joins, and reports at the end of its period that it needs less. The table returns what a server
// does.
func Example() {
	t, err := lease.New(lease.Config{Slabs: 4, SlabBytes: 1 << 20, Token: func() uint64 { return 4711 }})
	if err != nil {
		log.Fatal(err)
	}
	w, actions, err := t.Join(0, lease.Request{Name: "web1", Period: time.Second, Demand: 2 << 20})
	if err != nil {
		log.Fatal(err)
	}
	show := func(list []lease.Action) {
		for _, a := range list {
			fmt.Println(a.Kind, "node", a.Node, "slab", a.Slab, "period", a.Period)
		}
	}
	show(actions)
	show(t.Tick(time.Second))
	show(t.Report(time.Second, w.Node, 1, lease.Usage{}))
	fmt.Println(t.Lease(time.Second, w.Node))
	show(t.Tick(3 * time.Second))
	// Output:
	// open node 1 slab 0 period 0
	// open node 1 slab 1 period 0
	// lease node 1 slab 0 period 1
	// ask node 1 slab 0 period 1
	// lease node 1 slab 0 period 2
	// [{0 0s} {1 2s}]
	// close node 1 slab 1 period 0
	// ask node 1 slab 0 period 2
}
