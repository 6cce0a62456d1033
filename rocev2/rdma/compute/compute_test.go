// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

func open(t *testing.T) verbs.Device {
	t.Helper()
	dev := devices.Loopback(t)
	return dev
}

// slow is a kernel that tells when it starts, and ends with its context or when released.
type slow struct {
	started, release chan struct{}
	runs             atomic.Int32
}

func newSlow() *slow { return &slow{started: make(chan struct{}, 100), release: make(chan struct{})} }

func (*slow) Check(task.Operand, []task.Operand) error { return nil }

func (s *slow) Run(ctx context.Context, _ *task.Descriptor, _ [][]byte, out []byte) error {
	s.runs.Add(1)
	s.started <- struct{}{}
	select {
	case <-s.release:
		out[0] = 1
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve runs a server until the test ends. reports has what it reports.
func serve(t *testing.T, dev verbs.Device, c ServerConfig, e task.Config) (address string, reports chan error) {
	t.Helper()
	c.Executor = testkit.Must1(task.NewExecutor(e))(t)
	reports = make(chan error, 100)
	c.Report = func(_ net.Addr, err error) { reports <- err }
	s := testkit.Must1(Listen(testkit.Context(t), dev, "127.0.0.1:0", c))(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := testkit.Receive(t, "it ends", done); !errors.Is(err, context.Canceled) {
			t.Errorf("Serve: %v", err)
		}
		testkit.Must(t, c.Executor.Close(testkit.Context(t)))
	})
	return s.Addr().String(), reports
}

func dial(t *testing.T, dev verbs.Device, address string) *Client {
	t.Helper()
	c := testkit.Must1(Dial(testkit.Context(t), dev, address, ClientConfig{}))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// operand registers memory of a client.
func operand(t *testing.T, c *Client, b []byte, typ task.Type) task.Operand {
	t.Helper()
	o := testkit.Must1(c.Register(b, typ, task.Shape{uint32(len(b) / int(typ.Size()))}))(t)
	return o
}

// Clients connect by address, and each gets its results.
func TestClients(t *testing.T) {
	dev := open(t)
	at, reports := serve(t, dev, ServerConfig{}, task.Config{Cores: 2})
	for n := range 3 {
		c := dial(t, dev, at)
		testkit.Must(t, testkit.Receive(t, "a report", reports))
		in, out := []byte{1, 0, 0, 0, byte(n), 0, 0, 0}, make([]byte, 8)
		d := task.Descriptor{Kernel: task.KernelSum, Operands: []task.Operand{operand(t, c, in, task.Uint32)}, Result: operand(t, c, out, task.Uint64)}
		testkit.Must(t, c.Do(testkit.Context(t), &d))
		if got := binary.LittleEndian.Uint64(out); got != uint64(1+n) {
			t.Errorf("client %d: %d", n, got)
		}
		d.Kernel = 99
		if err := c.Do(testkit.Context(t), &d); !errors.Is(err, &task.Error{Status: task.StatusKernel}) {
			t.Error(err)
		}
	}
}

// A server at its limit rejects with the reason, and has room again when a client has gone.
func TestMaxClients(t *testing.T) {
	dev := open(t)
	at, reports := serve(t, dev, ServerConfig{MaxClients: 1}, task.Config{Cores: 1})
	first := dial(t, dev, at)
	testkit.Must(t, testkit.Receive(t, "a report", reports))
	var rejected *rdma.RejectedError
	if _, err := Dial(testkit.Context(t), dev, at, ClientConfig{}); !errors.As(err, &rejected) || len(rejected.Private) == 0 {
		t.Errorf("a second client: %v", err)
	}
	testkit.Must(t, first.Close())
	if err := testkit.Receive(t, "a report", reports); !errors.Is(err, rdma.ErrPeerClosed) {
		t.Errorf("the server reports %v", err)
	}
	ctx := testkit.Context(t)
	for { // the server may still release what the first one had
		c, err := Dial(ctx, dev, at, ClientConfig{})
		if err == nil {
			testkit.Must(t, c.Close())
			return
		}
		if !errors.As(err, &rejected) {
			t.Fatal(err)
		}
	}
}

// The tasks of a client that has gone are canceled: those that wait do not start, and the one in
// execution sees the end of its context. Another client goes on. With a depth of 1, the server has
// nothing posted that could be flushed.
func TestClientGoes(t *testing.T) {
	for _, depth := range []int{0, 1} {
		clientGoes(t, depth)
	}
}

func clientGoes(t *testing.T, depth int) {
	dev := open(t)
	kernels, s := task.Builtin(), newSlow()
	testkit.Must(t, kernels.Register(task.FirstOwnKernel, "slow", s))
	at, _ := serve(t, dev, ServerConfig{Depth: depth}, task.Config{Cores: 1, Kernels: kernels})
	gone, stays := dial(t, dev, at), dial(t, dev, at)
	out := make([]byte, 8)
	d := task.Descriptor{Kernel: task.FirstOwnKernel, Result: operand(t, gone, out, task.Uint8)}
	failed := make(chan error, 3)
	for range cap(failed) {
		go func() { d := d; failed <- gone.Do(context.Background(), &d) }()
	}
	testkit.Receive(t, "it starts", s.started)
	testkit.Must(t, gone.Close())
	for range cap(failed) {
		if err := testkit.Receive(t, "it fails", failed); err == nil {
			t.Error("a task of a client that has gone succeeds")
		}
	}
	sum := make([]byte, 8)
	d = task.Descriptor{
		Kernel: task.KernelSum, Operands: []task.Operand{operand(t, stays, []byte{40, 2}, task.Uint8)}, Result: operand(t, stays, sum, task.Uint64),
	}
	testkit.Must(t, stays.Do(testkit.Context(t), &d))
	if n := s.runs.Load(); n != 1 || sum[0] != 42 || out[0] != 0 {
		t.Errorf("depth %d: %d started, the other client has %d, and %d was written", depth, n, sum[0], out[0])
	}
}

// A wrong key or range of the server's memory is an error, and nothing is written. Memory of another
// client cannot be named either.
func TestForeignMemory(t *testing.T) {
	dev := open(t)
	var shared task.Regions
	pd := testkit.Must1(dev.AllocPD())(t)
	memory := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	mr := testkit.Must1(pd.RegMR(memory, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite))(t)
	testkit.Must(t, shared.Add(mr, memory, verbs.AccessRemoteRead|verbs.AccessRemoteWrite))
	at, _ := serve(t, dev, ServerConfig{Memory: &shared}, task.Config{Cores: 1})
	a, b := dial(t, dev, at), dial(t, dev, at)
	there := task.Operand{VA: mr.VA(), Length: 8, Key: mr.RKey(), Type: task.Uint8, Shape: task.Shape{8}}
	ones := operand(t, a, []byte{1, 1, 1, 1, 1, 1, 1, 1}, task.Uint8)
	add := task.Descriptor{Kernel: task.KernelAdd, Operands: []task.Operand{ones, there}, Result: there}
	for what, change := range map[string]func(o *task.Operand){
		"key":   func(o *task.Operand) { o.Key ^= 1 },
		"range": func(o *task.Operand) { o.VA++ },
		"key of the other client": func(o *task.Operand) {
			*o = operand(t, b, make([]byte, 8), task.Uint8)
			o.Origin = false
		},
	} {
		wrong := add
		wrong.Operands = []task.Operand{ones, there}
		change(&wrong.Operands[1])
		if err := a.Do(testkit.Context(t), &wrong); !errors.Is(err, &task.Error{Status: task.StatusAccess}) {
			t.Errorf("%s: %v", what, err)
		}
		wrong = add
		change(&wrong.Result)
		if err := a.Do(testkit.Context(t), &wrong); !errors.Is(err, &task.Error{Status: task.StatusAccess}) {
			t.Errorf("%s of the result: %v", what, err)
		}
	}
	if memory[0] != 1 || memory[7] != 8 {
		t.Errorf("written: %d", memory)
	}
	testkit.Must(t, a.Do(testkit.Context(t), &add))
	if memory[0] != 2 || memory[7] != 9 {
		t.Errorf("the right task: %d", memory)
	}
}

// Calls after the end of the server, or of the client, return errors.
func TestEnds(t *testing.T) {
	dev := open(t)
	e := testkit.Must1(task.NewExecutor(task.Config{Cores: 1}))(t)
	s := testkit.Must1(Listen(testkit.Context(t), dev, "127.0.0.1:0", ServerConfig{Executor: e}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	c := dial(t, dev, s.Addr().String())
	cancel()
	if err := testkit.Receive(t, "it ends", done); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	d := task.Descriptor{Kernel: task.KernelMax, Operands: []task.Operand{operand(t, c, []byte{1}, task.Uint8)}, Result: operand(t, c, []byte{0}, task.Uint8)}
	var status *task.Error
	if err := c.Do(testkit.Context(t), &d); err == nil || errors.As(err, &status) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the server has gone: %v", err)
	}
	testkit.Must(t, c.Close())
	if err := c.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
	if _, err := c.Register(make([]byte, 8), task.Uint8, task.Shape{8}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("registered after Close: %v", err)
	}
	testkit.Must(t, e.Close(testkit.Context(t)))
	if _, err := Listen(testkit.Context(t), dev, ":0", ServerConfig{}); err == nil {
		t.Error("a server without an executor")
	}
}
