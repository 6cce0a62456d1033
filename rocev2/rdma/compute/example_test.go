// SPDX-License-Identifier: Apache-2.0

package compute_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math"

	_ "github.com/softroce/softroce-xdp/rocev2/nic/loopback"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/compute"
)

// A server computes the sum of a client's numbers. Both are in one program here, with a device that
// needs no interface.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dev, err := rdma.Open(ctx, "lo", rdma.WithDriver("loopback"))
	check(err)
	defer dev.Close()

	executor, err := compute.NewExecutor(compute.ExecutorConfig{Cores: 2})
	check(err)
	defer executor.Close(context.Background())
	s, err := compute.Listen(ctx, dev, "127.0.0.1:0", compute.ServerConfig{Executor: executor})
	check(err)
	go s.Serve(ctx)

	c, err := compute.Dial(ctx, dev, s.Addr().String(), compute.ClientConfig{})
	check(err)
	defer c.Close()
	numbers, sum := make([]byte, 4*100), make([]byte, 8)
	for i := range 100 {
		binary.LittleEndian.PutUint32(numbers[4*i:], math.Float32bits(float32(i)))
	}
	in, err := c.Register(numbers, compute.Float32, compute.Shape{100})
	check(err)
	out, err := c.Register(sum, compute.Float64, compute.Shape{1})
	check(err)
	check(c.Do(ctx, &compute.Descriptor{Kernel: compute.KernelSum, Operands: []compute.Operand{in}, Result: out}))
	fmt.Println(math.Float64frombits(binary.LittleEndian.Uint64(sum)))
	// Output: 4950
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
