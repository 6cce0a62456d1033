// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/pages"
	"github.com/softroce/softroce-xdp/mempool/server"
	"github.com/softroce/softroce-xdp/mempool/vmm"
	_ "github.com/softroce/softroce-xdp/rocev2/nic/loopback"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
)

// A page is written to the pool and read back.
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
	defer n.Close()

	store, err := pages.New(n, pages.Config{Demand: 4 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	data, err := store.AllocBuffers(4096)
	if err != nil {
		log.Fatal(err)
	}
	copy(data, "page 4711")
	done := make(chan error, 1)
	store.WritePages([]vmm.Request{{Page: 4711, Data: data, Done: func(err error) { done <- err }}})
	if err := <-done; err != nil {
		log.Fatal(err)
	}
	clear(data)
	store.ReadPages([]vmm.Request{{Page: 4711, Data: data, Done: func(err error) { done <- err }}})
	err = <-done
	fmt.Printf("%.9s %v\n", data, err)
	// Output: page 4711 <nil>
}
