// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// computeEnd is what a client or a server of tasks needs on a host.
type computeEnd struct {
	pd verbs.PD
	cq verbs.CQ
	qp verbs.QP
}

func newComputeEnd(t *testing.T, h *engines.Host) (e computeEnd) {
	t.Helper()
	dev := h.MustOpen(t, nic.Options{})
	var err error
	if e.pd, err = dev.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if e.cq, err = dev.CreateCQ(task.CQDepth(0)); err != nil {
		t.Fatal(err)
	}
	if e.qp, err = e.pd.CreateQP(task.QPInit(e.cq, 0)); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestComputeTasks has one host compute for another one (S1.7): the server reads the operands from
// the client's memory and writes the results to it, through attached interfaces.
func TestComputeTasks(t *testing.T) {
	topo.RequireRoot(t)
	hosts := engines.New(t, topo.Spec{StaticNeighbours: true, Hosts: []topo.HostSpec{{Name: "client"}, {Name: "server"}}})
	for _, v6 := range []bool{false, true} {
		near, far := newComputeEnd(t, hosts[0]), newComputeEnd(t, hosts[1])
		connect(t, near.qp, far.qp, hosts[0].Addr(v6), hosts[1].Addr(v6))
		exchangeTasks(t, near, far)
		if err := engines.Close(hosts); err != nil {
			t.Fatal(err)
		}
	}
}

func exchangeTasks(t *testing.T, near, far computeEnd) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	executor, err := task.NewExecutor(task.Config{Cores: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer executor.Close(ctx)
	server, err := task.NewServer(task.ServerConfig{Executor: executor, PD: far.pd, QP: far.qp, CQ: far.cq})
	if err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- server.Serve(serving) }()
	defer func() { stop(); <-served }()
	client, err := task.NewClient(task.ClientConfig{PD: near.pd, QP: near.qp, CQ: near.cq})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { checksums(ctx, t, client, near.pd, i) })
	}
	all.Wait()
	tasks := uint64(0)
	for _, c := range executor.Cores() {
		tasks += c.Tasks
	}
	if tasks != 8*20 {
		t.Errorf("the server's cores executed %d tasks, want %d", tasks, 8*20)
	}
}

// checksums has the server compute 20 checksums of 50 KB.
func checksums(ctx context.Context, t *testing.T, c *task.Client, pd verbs.PD, seed int) {
	const n = 50000
	memory := make([]byte, n+4)
	mr, err := pd.RegMR(memory, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
	if err != nil {
		t.Error(err)
		return
	}
	data := task.Operand{VA: mr.VA(), Length: n, Key: mr.RKey(), Type: task.Uint8, Shape: task.Shape{n}, Origin: true}
	sum := task.Operand{VA: mr.VA() + n, Length: 4, Key: mr.RKey(), Type: task.Uint32, Shape: task.Shape{1}, Origin: true}
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	for i := range 20 {
		for k := range n {
			memory[k] = byte(rng.Uint32())
		}
		d := task.Descriptor{Kernel: task.KernelCRC32C, Immediate: i%2 == 0, Operands: []task.Operand{data}, Result: sum}
		if err := c.Do(ctx, &d); err != nil {
			t.Error(err)
			return
		}
		want := binary.LittleEndian.AppendUint32(nil, crc32.Checksum(memory[:n], crc32.MakeTable(crc32.Castagnoli)))
		if !bytes.Equal(memory[n:], want) {
			t.Errorf("task %d of %d: %x, want %x", i, seed, memory[n:], want)
		}
	}
}
