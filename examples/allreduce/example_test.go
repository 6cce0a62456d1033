// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/softroce/softroce-xdp/examples/allreduce"
	_ "github.com/softroce/softroce-xdp/rocev2/nic/loopback"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/compute"
)

// Three nodes add their vectors in the NIC. They are in one process here.
func Example() {
	ctx := context.Background()
	dev, err := rdma.Open(ctx, "lo", rdma.WithDriver("loopback")) // rdma.Open(ctx, "eth0")
	check(err)
	defer dev.Close()
	at := []string{"127.0.0.1:7177", "127.0.0.1:7178", "127.0.0.1:7179"}
	var nodes sync.WaitGroup
	sums := make([]uint32, len(at))
	for rank := range at {
		nodes.Go(func() {
			vector := make([]byte, 12)
			for i := range 3 {
				binary.LittleEndian.PutUint32(vector[4*i:], uint32(10*rank+i))
			}
			executor, err := compute.NewExecutor(compute.ExecutorConfig{Cores: 1})
			check(err)
			r, err := main.Join(ctx, dev, main.Config{
				Listen: at[rank], Next: at[(rank+1)%len(at)], Rank: rank, Nodes: len(at),
				Vector: vector, Type: compute.Uint32, Executor: executor,
			})
			check(err)
			check(r.AllReduce(ctx))
			check(r.Close())
			check(executor.Close(ctx))
			sums[rank] = binary.LittleEndian.Uint32(vector[8:])
		})
	}
	nodes.Wait()
	fmt.Println(sums)
	// Output:
	// [36 36 36]
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
