// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"

	_ "github.com/softroce/softroce-xdp/rocev2/nic/loopback" // "softroce" on an attached interface
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A client sends a task to a server, which reads the operand from the client, and writes the
// result to it. Both queue pairs are in this process here.
func ExampleServer() {
	dev, err := rdma.Open(context.Background(), "lo", rdma.WithDriver("loopback"))
	check(err)
	defer dev.Close()
	near, far := newEnd(dev), newEnd(dev)
	here := netip.MustParseAddr("127.0.0.1")
	a := verbs.Endpoint{Addr: here, QPN: near.qp.QPN(), PSN: 100}
	b := verbs.Endpoint{Addr: here, QPN: far.qp.QPN(), PSN: 200}
	check(verbs.Connect(near.qp, a, b, verbs.DefaultAttr()))
	check(verbs.Connect(far.qp, b, a, verbs.DefaultAttr()))

	executor, err := task.NewExecutor(task.Config{Cores: 2})
	check(err)
	server, err := task.NewServer(task.ServerConfig{Executor: executor, PD: far.pd, QP: far.qp, CQ: far.cq})
	check(err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- server.Serve(ctx) }()

	client, err := task.NewClient(task.ClientConfig{PD: near.pd, QP: near.qp, CQ: near.cq})
	check(err)
	memory := binary.LittleEndian.AppendUint32(nil, 20)
	memory = binary.LittleEndian.AppendUint32(memory, 22)
	memory = append(memory, make([]byte, 8)...) // the result
	mr, err := near.pd.RegMR(memory, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
	check(err)
	vector := task.Operand{VA: mr.VA(), Length: 8, Key: mr.RKey(), Type: task.Uint32, Shape: task.Shape{2}, Origin: true}
	result := task.Operand{VA: mr.VA() + 8, Length: 8, Key: mr.RKey(), Type: task.Uint64, Shape: task.Shape{1}, Origin: true}
	d := task.Descriptor{Kernel: task.KernelSum, Operands: []task.Operand{vector}, Result: result}
	check(client.Do(context.Background(), &d))
	fmt.Println(binary.LittleEndian.Uint64(memory[8:]))

	d.Kernel = 99
	fmt.Println(client.Do(context.Background(), &d))
	check(client.Close())
	stop()
	fmt.Println(<-served)
	check(executor.Close(context.Background()))
	// Output:
	// 42
	// task: no such kernel
	// context canceled
}

// end is one end of a connection.
type end struct {
	pd verbs.PD
	cq verbs.CQ
	qp verbs.QP
}

func newEnd(dev verbs.Device) (e end) {
	var err error
	e.pd, err = dev.AllocPD()
	check(err)
	e.cq, err = dev.CreateCQ(task.CQDepth(0))
	check(err)
	e.qp, err = e.pd.CreateQP(task.QPInit(e.cq, 0))
	check(err)
	return e
}
