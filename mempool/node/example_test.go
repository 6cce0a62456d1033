// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/server"
	_ "github.com/softroce/softroce-xdp/rocev2/nic/loopback"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
)

// A server lends 8 MiB. A node leases 4 MiB, and stores a page there. Both are in one program here, with a
// device that needs no interface.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dev, err := rdma.Open(ctx, "lo", rdma.WithDriver("loopback"))
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	s, err := server.Listen(ctx, dev, "127.0.0.1:0", server.Config{Bytes: 8 << 20})
	if err != nil {
		log.Fatal(err)
	}
	go s.Serve(ctx)

	n, err := node.Join(ctx, dev, s.Addr().String(), node.Config{Name: "web1", Period: time.Second, Demand: 4 << 20})
	if err != nil {
		log.Fatal(err)
	}
	slab := n.Lease().Slabs[0]
	page := make([]byte, node.PageBytes)
	copy(page, "kept at the server")
	if err := n.Write(ctx, slab.Number, 0, page); err != nil {
		log.Fatal(err)
	}
	clear(page)
	if err := n.Read(ctx, slab.Number, 0, page); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d bytes leased: %.18s\n", n.Lease().Bytes(), page)
	if err := n.Leave(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: 4194304 bytes leased: kept at the server
}
