// SPDX-License-Identifier: Apache-2.0

// Package compute offers the cores of a node to other nodes (S1.1, S1.7), by address and port.
//
//	executor, err := compute.NewExecutor(compute.ExecutorConfig{Cores: 2, Background: true})
//	s, err := compute.Listen(ctx, dev, ":7176", compute.ServerConfig{Executor: executor})
//	err = s.Serve(ctx)
//
//	c, err := compute.Dial(ctx, dev, "10.0.0.2:7176", compute.ClientConfig{})
//	in, err := c.Register(vector, compute.Float32, compute.Shape{1000})
//	out, err := c.Register(sum, compute.Float64, compute.Shape{1})
//	err = c.Do(ctx, &compute.Descriptor{Kernel: compute.KernelSum, Operands: []compute.Operand{in}, Result: out})
//
// The server reads the operands from the memory of the client by RDMA READ, and writes the result to
// it by RDMA WRITE. docs/program/compute.md has the kernels.
//
// # Isolation of clients
//
// Each client has a connection, a protection domain and a queue of its own: the keys of one are of no
// use to another one, a full queue delays only its own client, and cores take tasks from the clients in
// turn. When a connection ends, its tasks that have not started are canceled, and a kernel in execution
// sees the end of its context; its result is not written.
//
// Who can reach the port can use the cores. Limits are MaxClients and Depth of the server, and Cores and
// MaxBytes of its executor.
package compute
