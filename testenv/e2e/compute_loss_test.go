// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma/compute"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/faults"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

const (
	lossClients = 4
	lossTasks   = 25_000 // of each client
	lossWorkers = 16     // tasks of a client at a time
)

// counted is a kernel that counts how often each task is executed: operand 0 is its number, and the
// result is that of a CRC-32C of it.
type counted struct {
	task.Kernel
	runs []atomic.Int32
}

func (c *counted) Run(ctx context.Context, d *task.Descriptor, in [][]byte, out []byte) error {
	c.runs[binary.LittleEndian.Uint32(in[0])].Add(1)
	return c.Kernel.Run(ctx, d, in, out)
}

// TestComputeUnderLoss has four hosts send 10^5 random tasks to a fifth, while 5 % of all packets are
// lost. Every result is that of the same kernel here, and each task is executed once. One of the hosts
// loses its engine in the middle, with tasks in flight: those are executed at most once, and the others
// do not notice.
func TestComputeUnderLoss(t *testing.T) {
	topo.RequireRoot(t)
	spec := topo.Spec{StaticNeighbours: true, Hosts: []topo.HostSpec{{Name: "server"}}}
	for i := range lossClients {
		spec.Hosts = append(spec.Hosts, topo.HostSpec{Name: fmt.Sprintf("client%d", i)})
	}
	top := topo.ForTest(t, spec)
	hosts := engines.On(t, top, "--rate", "10G", "--pacer", "none")
	sw, err := faults.NewLoss(top)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sw.Close() })

	count := &counted{task.Builtin().Kernel(task.KernelCRC32C), make([]atomic.Int32, 2*lossClients*lossTasks)}
	kernels := task.Builtin()
	if err := kernels.Register(task.FirstOwnKernel, "counted", count); err != nil {
		t.Fatal(err)
	}
	address := serveTasks(t, hosts[0], kernels)
	if err := sw.Lose(.05); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var all sync.WaitGroup
	clients := make([]*lossClient, lossClients)
	for i := range clients {
		clients[i] = &lossClient{t: t, host: hosts[1+i], address: address, count: count, first: uint32(2 * i * lossTasks)}
		all.Go(func() { clients[i].run(i == lossClients-1) })
	}
	all.Wait()
	lost, err := sw.Lost()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d tasks in %s, %d packets lost", lossClients*lossTasks, time.Since(began).Round(time.Second), lost)
	if lost < lossTasks {
		t.Errorf("only %d packets were lost", lost)
	}
}

// serveTasks runs a server on a host until the test ends.
func serveTasks(t *testing.T, h *engines.Host, kernels *task.Registry) (address string) {
	t.Helper()
	e, err := task.NewExecutor(task.Config{Cores: 2, Kernels: kernels})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s, err := compute.Listen(ctx, h.MustOpen(t, nic.Options{}), ":"+strconv.Itoa(compute.Port), compute.ServerConfig{Executor: e})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; !errors.Is(err, context.Canceled) {
			t.Errorf("the server ended: %v", err)
		}
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return net.JoinHostPort(h.Addr(false).String(), strconv.Itoa(compute.Port))
}

// lossClient is a host that sends tasks.
type lossClient struct {
	t       *testing.T
	host    *engines.Host
	address string
	count   *counted
	first   uint32 // number of its first task

	client *compute.Client
	next   atomic.Uint32 // tasks begun, of this connection and those before
	right  atomic.Uint32
}

// run sends tasks until lossTasks have right results.
func (c *lossClient) run(dies bool) {
	c.connect()
	if c.client == nil {
		return
	}
	if dies {
		unanswered := c.work(lossTasks/2, func() {
			if err := c.host.Dev.Close(); err != nil {
				c.t.Error(err)
			}
		})
		for _, n := range unanswered {
			if runs := c.count.runs[n].Load(); runs > 1 {
				c.t.Errorf("task %d, whose host died, was executed %d times", n, runs)
			}
		}
		_ = c.client.Close()
		if c.connect(); c.client == nil {
			return
		}
	}
	if left := c.work(lossTasks, nil); len(left) > 0 {
		c.t.Errorf("%s: %d tasks have failed", c.host.Name(), len(left))
	}
	if err := c.client.Close(); err != nil {
		c.t.Error(err)
	}
}

func (c *lossClient) connect() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	dev, err := c.host.Open(nic.Options{})
	if err == nil {
		c.client, err = compute.Dial(ctx, dev, c.address, compute.ClientConfig{})
	}
	if err != nil {
		c.client = nil
		c.t.Errorf("%s: %v", c.host.Name(), err)
	}
}

// work sends tasks until some have right results, calls then, and returns the numbers of those that have
// failed.
func (c *lossClient) work(until uint32, then func()) (failed []uint32) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var once sync.Once
	for i := range lossWorkers {
		all.Go(func() {
			w, err := c.newWorker(uint64(i))
			if err != nil {
				c.t.Error(err)
				return
			}
			for c.right.Load() < until {
				n := c.first + c.next.Add(1) - 1
				if err := w.task(n); err != nil {
					mu.Lock()
					failed = append(failed, n)
					mu.Unlock()
					if then == nil {
						c.t.Errorf("%s: task %d: %v", c.host.Name(), n, err)
					}
					return
				}
				if c.right.Add(1) == until && then != nil {
					once.Do(then)
				}
			}
		})
	}
	all.Wait()
	return failed
}

// lossWorker sends one task after the other.
type lossWorker struct {
	*lossClient
	rng     *rand.Rand
	in, out []byte
	from    task.Operand
	to      task.Operand
}

func (c *lossClient) newWorker(seed uint64) (*lossWorker, error) {
	w := &lossWorker{lossClient: c, rng: rand.New(rand.NewPCG(seed, uint64(c.first))), in: make([]byte, 8192), out: make([]byte, 4096)}
	var err error
	if w.from, err = c.client.Register(w.in, task.Uint8, task.Shape{8192}); err != nil {
		return nil, err
	}
	w.to, err = c.client.Register(w.out, task.Uint8, task.Shape{4096})
	return w, err
}

// task sends a task, and compares its result with that of the kernel here.
func (w *lossWorker) task(n uint32) error {
	for i := 0; i < len(w.in); i += 8 {
		binary.LittleEndian.PutUint64(w.in[i:], w.rng.Uint64())
	}
	d, kernel := w.random()
	if d.Kernel == task.FirstOwnKernel {
		binary.LittleEndian.PutUint32(w.in, n)
	}
	var operands [][]byte
	for _, o := range d.Operands {
		operands = append(operands, w.in[o.VA-w.from.VA:][:o.Length])
	}
	want := make([]byte, d.Result.Length)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := kernel.Run(ctx, &d, operands, want); err != nil {
		return err
	}
	clear(w.out)
	if err := w.client.Do(ctx, &d); err != nil {
		return err
	}
	if !bytes.Equal(w.out[:len(want)], want) {
		return fmt.Errorf("kernel %d has another result", d.Kernel)
	}
	if runs := w.count.runs[n].Load(); d.Kernel == task.FirstOwnKernel && runs != 1 {
		return fmt.Errorf("it was executed %d times", runs)
	}
	return nil
}

// random returns a task of random kernel, type, sizes and kind of answer, and its kernel.
func (w *lossWorker) random() (task.Descriptor, task.Kernel) {
	part := func(at, elements int, typ task.Type) task.Operand {
		o := w.from
		o.VA, o.Type, o.Shape = o.VA+uint64(at), typ, task.Shape{uint32(elements)}
		o.Length = uint32(elements) * typ.Size()
		return o
	}
	ids := []task.KernelID{task.KernelAdd, task.KernelSum, task.KernelMax, task.KernelCRC32C, task.FirstOwnKernel}
	d := task.Descriptor{Kernel: ids[w.rng.IntN(len(ids))], Immediate: w.rng.IntN(2) == 0, Result: w.to}
	typ := []task.Type{task.Int8, task.Uint16, task.Int32, task.Uint64}[w.rng.IntN(4)]
	elements := 1 + w.rng.IntN(4096/int(typ.Size()))
	d.Operands = []task.Operand{part(0, elements, typ)}
	result := func(typ task.Type, elements int) {
		d.Result.Type, d.Result.Shape, d.Result.Length = typ, task.Shape{uint32(elements)}, uint32(elements)*typ.Size()
	}
	switch d.Kernel {
	case task.KernelAdd:
		d.Operands = append(d.Operands, part(4096, elements, typ))
		result(typ, elements)
	case task.KernelMax:
		result(typ, 1)
	case task.KernelSum:
		wide := map[task.Type]task.Type{task.Int8: task.Int64, task.Int32: task.Int64, task.Uint16: task.Uint64, task.Uint64: task.Uint64}
		result(wide[typ], 1)
	case task.FirstOwnKernel:
		d.Operands = []task.Operand{part(0, 4, task.Uint8)}
		result(task.Uint32, 1)
		return d, task.Builtin().Kernel(task.KernelCRC32C)
	default:
		result(task.Uint32, 1)
	}
	return d, task.Builtin().Kernel(d.Kernel)
}
