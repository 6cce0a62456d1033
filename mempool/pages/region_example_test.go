// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"context"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/pages"
	"github.com/softroce/softroce-xdp/mempool/server"
	"github.com/softroce/softroce-xdp/mempool/vmm"
	_ "github.com/softroce/softroce-xdp/rocev2/nic/loopback" // a device without an interface
	"github.com/softroce/softroce-xdp/rocev2/rdma"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A region of 8 MB of which 1 MB is local, and the rest at a server of the pool.
func ExampleStore() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dev, err := rdma.Open(ctx, "lo", rdma.WithDriver("loopback")) // rdma.Open(ctx, "eth0")
	check(err)
	defer dev.Close()
	s, err := server.Listen(ctx, dev, "127.0.0.1:0", server.Config{Bytes: 16 << 20}) // on another host
	check(err)
	go s.Serve(ctx)

	n, err := node.Join(ctx, dev, s.Addr().String(), node.Config{Name: "web1", Period: time.Second, Demand: 8 << 20})
	check(err)
	defer n.Close()
	store, err := pages.New(n, pages.Config{Demand: 8 << 20})
	check(err)
	defer store.Close()
	r, err := vmm.NewRegion(vmm.Config{Size: 8 << 20, Local: 1 << 20}, store)
	check(err)
	defer r.Close()

	for i := range int64(8) {
		_, err = r.WriteAt(fmt.Appendf(make([]byte, 0, 1<<20), "megabyte %d", i)[:1<<20], i<<20)
		check(err)
	}
	b := make([]byte, 10)
	_, err = r.ReadAt(b, 0)
	check(err)
	fmt.Printf("%s; more than 6 MB are in the pool: %v\n", b, r.Stats().Stored > 6<<8)

	// Output:
	// megabyte 0; more than 6 MB are in the pool: true
}
