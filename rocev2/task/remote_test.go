// SPDX-License-Identifier: Apache-2.0

package task

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A task uses operands of both nodes, has its result on either, and is answered in either way.
func TestRemoteTask(t *testing.T) {
	here, there := both(t, 0, 0)
	var shared Regions
	e := newExecutor(t, Config{Cores: 2})
	serve(t, there, e, &shared, 0)
	c := newClient(t, here, 0)

	ours := []float64{1, 2, 3, 4, 5, 6}
	theirs := []float64{10, 20, 30, 40, 50, 60}
	a := here.origin(bytesOf(t, ours), Float64, Shape{2, 3})
	mem := bytesOf(t, theirs)
	mr, b := there.register(mem, Float64, Shape{3, 2})
	testkit.Must(t, shared.Add(mr, mem, verbs.AccessRemoteRead))
	product := bytesOf(t, []float64{220, 280, 490, 640})
	for _, immediate := range []bool{false, true} {
		near, far := make([]byte, 32), make([]byte, 32)
		mr, there := there.register(far, Float64, Shape{2, 2})
		testkit.Must(t, shared.Add(mr, far, verbs.AccessRemoteWrite))
		for _, d := range []Descriptor{
			{Kernel: KernelGEMM, Immediate: immediate, Operands: []Operand{a, b}, Result: here.origin(near, Float64, Shape{2, 2})},
			{Kernel: KernelGEMM, Immediate: immediate, Operands: []Operand{a, b}, Result: there},
		} {
			if err := c.Do(testkit.Context(t), &d); err != nil {
				t.Errorf("immediate %v, result here %v: %v", immediate, d.Result.Origin, err)
			}
		}
		if !bytes.Equal(near, product) || !bytes.Equal(far, product) {
			t.Errorf("immediate %v: %x and %x, want %x", immediate, near, far, product)
		}
	}
	shared.Remove(mr)
	d := Descriptor{Kernel: KernelSum, Operands: []Operand{b}, Result: here.origin(make([]byte, 8), Float64, scalar)}
	if err := c.Do(testkit.Context(t), &d); !errors.Is(err, &Error{Status: StatusAccess}) {
		t.Errorf("memory that is not shared any more: %v", err)
	}
}

// Each kernel gives the same bytes on this node and on another one.
func TestRemoteKernels(t *testing.T) {
	here, there := both(t, 0, 0)
	serve(t, there, newExecutor(t, Config{}), nil, 0)
	c := newClient(t, here, 0)
	w := newWorld(t, Config{})
	v := make([]float32, 30000)
	for i := range v {
		v[i] = float32(math.Sin(float64(i)))
	}
	data := bytesOf(t, v)
	n := Shape{30000}
	m := Shape{150, 200}
	k := Shape{200, 150}
	type in struct {
		b []byte
		s Shape
	}
	for id, x := range map[KernelID]struct {
		in     []in
		result Type
		shape  Shape
	}{
		KernelAdd: {[]in{{data, n}, {data, n}}, Float32, n}, KernelSum: {[]in{{data, n}}, Float64, scalar},
		KernelMin: {[]in{{data, n}}, Float32, scalar}, KernelMax: {[]in{{data, n}}, Float32, scalar},
		KernelDot: {[]in{{data, n}, {data, n}}, Float64, scalar}, KernelCRC32C: {[]in{{data, n}}, Uint32, scalar},
		KernelGEMM:      {[]in{{data, m}, {data, k}}, Float32, Shape{150, 150}},
		KernelHistogram: {[]in{{data, n}, {bytesOf(t, []float32{-1, 1}), Shape{2}}}, Uint64, Shape{100}},
	} {
		size, _ := x.shape.bytes(x.result)
		local, remote := make([]byte, size), make([]byte, size)
		l := Descriptor{Kernel: id, Result: w.operand(local, x.result, x.shape)}
		r := Descriptor{Kernel: id, Result: here.origin(remote, x.result, x.shape)}
		for _, o := range x.in {
			l.Operands = append(l.Operands, w.operand(o.b, Float32, o.s))
			r.Operands = append(r.Operands, here.origin(o.b, Float32, o.s))
		}
		want(t, "local", w.run(l), StatusOK)
		if err := c.Do(testkit.Context(t), &r); err != nil || !bytes.Equal(local, remote) || bytes.Equal(remote, make([]byte, size)) {
			t.Errorf("kernel %d: %v, local and remote results are equal: %v", id, err, bytes.Equal(local, remote))
		}
	}
}

// Tasks that are wrong are answered with their status. They write nothing, and the connection
// goes on.
func TestRemoteRefused(t *testing.T) {
	here, there := both(t, 0, 0)
	var shared Regions
	serve(t, there, newExecutor(t, Config{MaxBytes: 1 << 16}), &shared, 0)
	c := newClient(t, here, 0)
	mem := bytes.Repeat([]byte{7}, 64)
	mr, all := there.register(mem, Uint8, Shape{64})
	testkit.Must(t, shared.Add(mr, mem, verbs.AccessRemoteRead))
	out := bytes.Repeat([]byte{9}, 8)
	result := here.origin(out, Uint64, scalar)
	good := Descriptor{Kernel: KernelSum, Operands: []Operand{all}, Result: result}
	for what, x := range map[string]struct {
		status Status
		change func(d *Descriptor)
	}{
		"kernel":            {StatusKernel, func(d *Descriptor) { d.Kernel = 77 }},
		"operands":          {StatusOperand, func(d *Descriptor) { d.Operands = nil }},
		"key":               {StatusAccess, func(d *Descriptor) { d.Operands = []Operand{all}; d.Operands[0].Key++ }},
		"key of the other":  {StatusAccess, func(d *Descriptor) { d.Operands = []Operand{all}; d.Operands[0].Key = result.Key }},
		"behind the region": {StatusAccess, func(d *Descriptor) { d.Operands = []Operand{all}; d.Operands[0].VA++ }},
		"not writable": {StatusAccess, func(d *Descriptor) {
			d.Result = all
			d.Result.Type, d.Result.Length, d.Result.Shape = Uint64, 8, scalar
		}},
		"value": {StatusFailed, func(d *Descriptor) {
			d.Kernel, d.Operands = KernelHistogram, []Operand{d.Result, d.Result}
			d.Operands[0].Type, d.Operands[0].Shape, d.Operands[1].Type, d.Operands[1].Shape = Float32, Shape{2}, Float32, Shape{2}
		}},
		"operand of this node": {StatusTooLarge, func(d *Descriptor) { d.Operands = []Operand{here.origin(make([]byte, 1<<16), Uint8, Shape{1 << 16})} }},
	} {
		for _, immediate := range []bool{false, true} {
			d := good
			x.change(&d)
			d.Immediate = immediate
			if err := c.Do(testkit.Context(t), &d); !errors.Is(err, &Error{Status: x.status}) {
				t.Errorf("%s, immediate %v: %v, want %s", what, immediate, err, x.status)
			}
		}
	}
	if !bytes.Equal(out, bytes.Repeat([]byte{9}, 8)) || !bytes.Equal(mem, bytes.Repeat([]byte{7}, 64)) {
		t.Errorf("written: %x, %x", out, mem)
	}
	if err := c.Do(testkit.Context(t), &good); err != nil || out[0] != 7*64%256 {
		t.Errorf("the right task: %v, %x", err, out)
	}
	bad := good
	bad.Result.Length--
	if err := c.Do(testkit.Context(t), &bad); !errors.Is(err, &Error{Status: StatusDescriptor}) {
		t.Errorf("a descriptor that is not valid is sent: %v", err)
	}
}

// A descriptor that is sent again is not executed again: its answer is repeated, its operands
// are not read, and its result is not written.
func TestRemoteDuplicate(t *testing.T) {
	here, there := both(t, 0, 0)
	e := newExecutor(t, Config{Cores: 1})
	serve(t, there, e, nil, 0)
	p := newPeer(here)
	in, out := []byte{1, 2}, make([]byte, 2)
	for id, immediate := range []bool{false, true} {
		d := Descriptor{ID: ID(id), Kernel: KernelAdd, Immediate: immediate, Result: here.origin(out, Uint8, Shape{2})}
		d.Operands = []Operand{here.origin(in, Uint8, Shape{2}), here.origin(in, Uint8, Shape{2})}
		b := testkit.Must1(d.Append(nil))(t)
		for n := range 3 {
			if a := p.send(b, immediate); a.Status != StatusOK || a.ID != d.ID {
				t.Fatalf("%+v", a)
			}
			if want := []byte{2, 4}; n == 0 && !bytes.Equal(out, want) || n > 0 && out[0] != 0 {
				t.Errorf("answer %d: the result is %d", n, out)
			}
			clear(out)
		}
	}
	if got := e.Cores()[0].Tasks; got != 2 {
		t.Errorf("%d tasks were executed", got)
	}
	// Payloads that are no descriptors have an answer too.
	for n, b := range [][]byte{nil, {1}, bytes.Repeat([]byte{0xff}, 100), bytes.Repeat([]byte{1}, 256)} {
		if a := p.send(b, false); a.Status != StatusDescriptor {
			t.Errorf("payload %d: %+v", n, a)
		}
	}
}

// A server that answers twice, or an id that was not sent, ends no other task.
func TestClientIgnores(t *testing.T) {
	here, there := both(t, 0, 0)
	c := newClient(t, here, 0)
	p := newPeer(there)
	sge := func(at, n int) []verbs.SGE {
		return []verbs.SGE{{Addr: p.mr.VA() + uint64(at), Len: uint32(n), LKey: p.mr.LKey()}}
	}
	for range 2 {
		testkit.Must(t, p.qp.PostRecv(&verbs.RecvWR{SGL: sge(0, SlotLen)}))
	}
	done := make(chan error, 1)
	result := here.origin(make([]byte, 1), Uint8, scalar)
	for id := range ID(2) {
		d := Descriptor{Kernel: KernelMax, Operands: []Operand{result}, Result: result}
		go func() { done <- c.Do(testkit.Context(t), &d) }()
		for devices.Next(t, p.cq).Op != verbs.OpRecv {
		}
		for i, a := range []Answer{{ID: 77}, {ID: id, Status: StatusBusy}, {ID: id}} {
			at := SlotLen + (int(id)*3+i)*AnswerLen
			a.Append(p.b[at:at])
			testkit.Must(t, p.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: sge(at, AnswerLen)}))
		}
		if err := testkit.Receive(t, "it ends", done); !errors.Is(err, &Error{Status: StatusBusy}) {
			t.Errorf("task %d: %v", id, err)
		}
	}
}

// A wrong key of the peer's own memory ends the connection, on both sides and in bounded time.
func TestRemoteWrongKey(t *testing.T) {
	for what, write := range map[string]bool{"operand": false, "result": true} {
		here, there := both(t, 0, 0)
		ended := serve(t, there, newExecutor(t, Config{}), nil, 0)
		c := newClient(t, here, 0)
		d := Descriptor{Kernel: KernelMax, Operands: []Operand{here.origin([]byte{1}, Uint8, scalar)}, Result: here.origin([]byte{0}, Uint8, scalar)}
		if write {
			d.Result.Key++
		} else {
			d.Operands[0].Key++
		}
		var status *Error
		if err := c.Do(testkit.Context(t), &d); err == nil || errors.As(err, &status) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
		if err := testkit.Receive(t, "it ends", ended); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("%s: Serve ends with %v", what, err)
		}
		if err := c.Do(testkit.Context(t), &d); err == nil {
			t.Errorf("%s: a task on a connection that has ended", what)
		}
	}
}

// Many tasks at once, with more in flight than the server takes: each is answered.
func TestRemoteMany(t *testing.T) {
	here, there := both(t, 64, 3)
	e := newExecutor(t, Config{Cores: 2})
	serve(t, there, e, nil, 3)
	c := newClient(t, here, 64)
	const workers, each = 100, 20
	var all sync.WaitGroup
	var failed atomic.Int64
	for i := range workers {
		in, out := bytes.Repeat([]byte{byte(i), 1, 2}, 1000), make([]byte, 4)
		d := Descriptor{
			Kernel: KernelCRC32C, Immediate: i%2 == 0, Operands: []Operand{here.origin(in, Uint8, Shape{3000})}, Result: here.origin(out, Uint32, scalar),
		}
		all.Go(func() {
			for range each {
				clear(out)
				err := c.Do(testkit.Context(t), &d)
				if err != nil || !bytes.Equal(out, bytesOf(t, crc32.Checksum(in, castagnoli))) {
					failed.Add(1)
				}
			}
		})
	}
	all.Wait()
	total := uint64(0)
	for _, core := range e.Cores() {
		total += core.Tasks
	}
	if failed.Load() != 0 || total != workers*each {
		t.Errorf("%d failed, %d were executed", failed.Load(), total)
	}
}

// Do ends with its context and with the client, and tasks of a server that ends are canceled.
func TestRemoteEnds(t *testing.T) {
	here, there := both(t, 0, 0)
	started := make(chan struct{}, 10)
	e := newExecutor(t, Config{Cores: 1, Kernels: with(t, func(ctx context.Context, _ *Descriptor, _ [][]byte, _ []byte) error {
		started <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})})
	serve(t, there, e, nil, 0)
	c := newClient(t, here, 0)
	out := []byte{5}
	d := Descriptor{Kernel: FirstOwnKernel, Result: here.origin(out, Uint8, scalar)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { d := d; done <- c.Do(ctx, &d) }()
	testkit.Receive(t, "it starts", started)
	cancel()
	if err := testkit.Receive(t, "it ends", done); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	go func() { d := d; done <- c.Do(context.Background(), &d) }()
	testkit.Must(t, c.Close())
	if err := testkit.Receive(t, "it ends", done); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if out[0] != 5 {
		t.Error("written")
	}
}

// The engine never waits for a core: while a kernel does not return, READs of other queue pairs of
// this engine complete, and tasks are accepted.
func TestKernelDelaysNoEngine(t *testing.T) {
	here, there := both(t, 0, 0)
	started, release := make(chan struct{}, 2), make(chan struct{})
	e := newExecutor(t, Config{Cores: 1, Background: true, Kernels: with(t, func(ctx context.Context, _ *Descriptor, _ [][]byte, out []byte) error {
		started <- struct{}{}
		<-release
		out[0] = 1
		return nil
	})})
	serve(t, there, e, nil, 0)
	c := newClient(t, here, 0)
	out := make([]byte, 2)
	d := Descriptor{Kernel: FirstOwnKernel, Result: here.origin(out[:1], Uint8, scalar)}
	second := Descriptor{Kernel: FirstOwnKernel, Result: here.origin(out[1:], Uint8, scalar)}
	done := make(chan error, 2)
	go func() { done <- c.Do(testkit.Context(t), &d) }()
	testkit.Receive(t, "it starts", started)
	go func() { done <- c.Do(testkit.Context(t), &second) }()

	near, far := connected(t, here.dev, 0, 0) // on the same engine
	_, from := far.register([]byte("read"), Uint8, Shape{4})
	b := make([]byte, 4)
	mr, _ := near.register(b, Uint8, Shape{4})
	for range 100 {
		testkit.Must(t, near.qp.PostSend(&verbs.SendWR{
			Op: verbs.OpRead, Flags: verbs.Signaled, RemoteAddr: from.VA, RKey: from.Key, SGL: []verbs.SGE{{Addr: mr.VA(), Len: 4, LKey: mr.LKey()}},
		}))
		if got := devices.Next(t, near.cq); got.Status != verbs.StatusSuccess || string(b) != "read" {
			t.Fatalf("%+v %q", got, b)
		}
	}
	if len(done) > 0 || out[0] != 0 {
		t.Error("the kernel has returned")
	}
	close(release)
	testkit.Must(t, testkit.Receive(t, "it ends", done))
	testkit.Must(t, testkit.Receive(t, "it ends", done))
	if out[0] != 1 || out[1] != 1 {
		t.Errorf("%d", out)
	}
}
