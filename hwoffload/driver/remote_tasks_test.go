// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// executors are the two ways in which tasks of another node are executed: by the cores of the card,
// and by a program on its host. Both have the same answers.
var executors = map[string]func(w *liveWorld, n *node, shared *task.Regions){
	"card": func(w *liveWorld, n *node, _ *task.Regions) {
		w.cores(n.liveSide)
		q, err := n.dev.ServeTasks(n.qp.(*driver.QP), task.DefaultDepth, 1<<20)
		w.must(err)
		w.t.Cleanup(func() { w.must(q.Close(w.limit())) })
	},
	"host": func(w *liveWorld, n *node, shared *task.Regions) {
		e, err := task.NewExecutor(task.Config{Cores: 4})
		w.must(err)
		s, err := task.NewServer(task.ServerConfig{Executor: e, PD: n.pd, QP: n.qp, CQ: n.cq, Memory: shared})
		w.must(err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx) }()
		w.t.Cleanup(func() { cancel(); <-ended; w.must(e.Close(w.limit())) })
	},
}

// each runs a test with each executor, on a network with faults. The client is a program on the
// other card.
func each(t *testing.T, f card.Faults, do func(w *liveWorld, client *task.Client, here, there *node, shared *task.Regions)) {
	for name, serve := range executors {
		t.Run(name, func(t *testing.T) {
			w := newLiveWorld(t, f, name == "host")
			here, there := w.pair(rc)
			var shared task.Regions
			serve(w, there, &shared)
			w.connect(here, there)
			c, err := task.NewClient(task.ClientConfig{PD: here.pd, QP: here.qp, CQ: here.cq})
			w.must(err)
			t.Cleanup(func() { w.must(c.Close()) })
			do(w, c, here, there, &shared)
		})
	}
}

var lossy = card.Faults{Loss: 0.02, Duplicate: 0.02, Reorder: 0.02, ReorderBy: 100_000}

// Each kernel gives the bytes of the reference for a task of another node: with operands and result
// at the node that sends it, at the node that executes it, or one of each, with either kind of
// answer, although packets are lost, duplicated and reordered.
func TestRemoteKernels(t *testing.T) {
	const n, rows = 3000, 50
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(math.Sin(float64(i)))
	}
	data := bytesOf(v)
	cases := kernelCases(n, rows)
	if len(cases) != len(task.Builtin().IDs()) {
		t.Fatal("a kernel has no task here")
	}
	each(t, lossy, func(w *liveWorld, client *task.Client, here, there *node, shared *task.Regions) {
		for id, k := range cases {
			d := task.Descriptor{Kernel: id, Result: task.Operand{Type: k.typ, Shape: k.result}}
			size := elements(k.result) * int(k.typ.Size())
			d.Result.Length = uint32(size)
			var in [][]byte
			for i, s := range k.shapes {
				b := data[:elements(s)*4]
				if id == task.KernelHistogram && i == 1 {
					b = bytesOf([]float32{-1, 1})
				}
				in = append(in, b)
				d.Operands = append(d.Operands, task.Operand{Length: uint32(len(b)), Type: task.Float32, Shape: s})
			}
			want := local(t, d, in, size)
			for place := range 4 { // bit 0: operand 0, bit 1: the result is of the sender; other operands are the sender's
				memory := func(b []byte, ofSender bool) verbs.DM {
					if ofSender {
						return here.memory(b, allRights)
					}
					m := there.memory(b, allRights)
					w.must(shared.AddDM(m, verbs.AccessRemoteRead|verbs.AccessRemoteWrite))
					return m
				}
				r := d
				r.Immediate = place%3 == 0
				out := memory(make([]byte, size), place&2 != 0)
				r.Result = operand(out, k.typ, place&2 != 0, k.result[:]...)
				r.Operands = nil
				used := []verbs.DM{out}
				for i, s := range k.shapes {
					origin := i > 0 || place&1 != 0
					m := memory(in[i], origin)
					used = append(used, m)
					r.Operands = append(r.Operands, operand(m, task.Float32, origin, s[:]...))
				}
				if err := client.Do(w.limit(), &r); err != nil || !bytes.Equal(w.bytes(out), want) {
					t.Errorf("kernel %d, places %d: %v; the result is that of the reference: %v", id, place, err, bytes.Equal(w.bytes(out), want))
				}
				for _, m := range used {
					w.must(m.Deregister())
				}
			}
		}
		if w.net.Lost == 0 {
			t.Error("no packet was lost")
		}
	})
}

// Tasks that are wrong are answered with their status and change no byte, and the connection goes on.
func TestRemoteRefused(t *testing.T) {
	each(t, lossy, func(w *liveWorld, client *task.Client, here, there *node, shared *task.Regions) {
		seven := bytes.Repeat([]byte{7}, 64)
		in := there.memory(seven, verbs.AccessRemoteRead)
		w.must(shared.AddDM(in, verbs.AccessRemoteRead))
		other, err := there.dev.AllocPD()
		w.must(err)
		foreign, err := verbs.NewMemory(other, 64, allRights)
		w.must(err)
		private := there.memory(seven, verbs.AccessLocalWrite)
		out := here.memory(bytes.Repeat([]byte{9}, 8), allRights)
		good := task.Descriptor{Kernel: task.KernelSum, Operands: []task.Operand{operand(in, task.Uint8, false, 64)}, Result: operand(out, task.Uint64, true, 1)}
		for what, x := range map[string]struct {
			status task.Status
			change func(d *task.Descriptor, o *task.Operand)
		}{
			"kernel":            {task.StatusKernel, func(d *task.Descriptor, _ *task.Operand) { d.Kernel = 77 }},
			"operands":          {task.StatusOperand, func(d *task.Descriptor, _ *task.Operand) { d.Operands = nil }},
			"key":               {task.StatusAccess, func(_ *task.Descriptor, o *task.Operand) { o.Key ^= 1 }},
			"protection domain": {task.StatusAccess, func(_ *task.Descriptor, o *task.Operand) { o.VA, o.Key = foreign.VA(), foreign.RKey() }},
			"lkey of the queue": {task.StatusAccess, func(_ *task.Descriptor, o *task.Operand) { o.Key = in.LKey() + 1<<16 }},
			"not readable":      {task.StatusAccess, func(_ *task.Descriptor, o *task.Operand) { o.VA, o.Key = private.VA(), private.LKey() }},
			"behind the region": {task.StatusAccess, func(_ *task.Descriptor, o *task.Operand) { o.VA++ }},
			"not writable": {task.StatusAccess, func(d *task.Descriptor, o *task.Operand) {
				d.Result = *o
				d.Result.Type, d.Result.Length, d.Result.Shape = task.Uint64, 8, task.Shape{1}
			}},
			"value": {task.StatusFailed, func(d *task.Descriptor, o *task.Operand) {
				o.Type, o.Length, o.Shape = task.Float32, 8, task.Shape{2}
				d.Kernel, d.Operands = task.KernelHistogram, []task.Operand{*o, *o}
			}},
			"too large": {task.StatusTooLarge, func(d *task.Descriptor, o *task.Operand) {
				o.Origin, o.Length, o.Shape = true, 100<<20, task.Shape{100 << 20}
			}},
		} {
			for _, immediate := range []bool{false, true} {
				d := good
				d.Operands = append([]task.Operand(nil), good.Operands...)
				d.Immediate = immediate
				x.change(&d, &d.Operands[0])
				if err := client.Do(w.limit(), &d); !errors.Is(err, &task.Error{Status: x.status}) {
					t.Errorf("%s, immediate %v: %v, want %s", what, immediate, err, x.status)
				}
			}
		}
		if !bytes.Equal(w.bytes(out), bytes.Repeat([]byte{9}, 8)) || !bytes.Equal(w.bytes(in), seven) || !bytes.Equal(w.bytes(foreign), make([]byte, 64)) {
			t.Errorf("written: %x, %x, %x", w.bytes(out), w.bytes(in), w.bytes(foreign))
		}
		if err := client.Do(w.limit(), &good); err != nil || binary.LittleEndian.Uint64(w.bytes(out)) != 7*64 {
			t.Errorf("the right task: %v, %x", err, w.bytes(out))
		}
	})
}

// A wrong key of the sender's own memory ends the connection at both ends, in bounded time, and the
// driver of the card sees that its task queue has ended.
func TestRemoteWrongKey(t *testing.T) {
	for what, write := range map[string]bool{"operand": false, "result": true} {
		w := newLiveWorld(t, card.Faults{}, false)
		here, there := w.pair(rc)
		w.cores(there.liveSide)
		q, err := there.dev.ServeTasks(there.qp.(*driver.QP), 4, 1<<20)
		w.must(err)
		w.connect(here, there)
		c, err := task.NewClient(task.ClientConfig{PD: here.pd, QP: here.qp, CQ: here.cq})
		w.must(err)
		d := task.Descriptor{
			Kernel: task.KernelMax, Operands: []task.Operand{operand(here.memory([]byte{1}, allRights), task.Uint8, true, 1)},
			Result: operand(here.memory([]byte{0}, allRights), task.Uint8, true, 1),
		}
		if write {
			d.Result.Key ^= 1
		} else {
			d.Operands[0].Key ^= 1
		}
		var status *task.Error
		if err := c.Do(w.limit(), &d); err == nil || errors.As(err, &status) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
		for ctx := w.limit(); !q.Ended(); {
			if ctx.Err() != nil {
				t.Fatalf("%s: the task queue does not end", what)
			}
		}
		w.must(c.Close())
		w.must(q.Close(w.limit()))
	}
}

// Many tasks of another node at once are all answered, each executed once, with less memory in the
// queue than all of them need. No completion goes to the driver of the card that executes them.
func TestRemoteMany(t *testing.T) {
	w := newLiveWorld(t, lossy, false)
	here, there := w.pair(rc)
	w.cores(there.liveSide)
	tasks, err := there.dev.ServeTasks(there.qp.(*driver.QP), 8, uint64(task.ServerBytes(8)+3*8192))
	w.must(err)
	w.connect(here, there)
	client, err := task.NewClient(task.ClientConfig{PD: here.pd, QP: here.qp, CQ: here.cq})
	w.must(err)
	const workers, times, n = 20, 5, 6000
	var all sync.WaitGroup
	for i := range workers {
		in := here.memory(bytes.Repeat([]byte{byte(i), 1, 2}, n/3), allRights)
		out := here.memory(make([]byte, 8), allRights)
		d := task.Descriptor{
			Kernel: task.KernelSum, Immediate: i%2 == 0,
			Operands: []task.Operand{operand(in, task.Uint8, true, n)}, Result: operand(out, task.Uint64, true, 1),
		}
		all.Go(func() {
			for range times {
				if err := client.Do(w.limit(), &d); err != nil || binary.LittleEndian.Uint64(w.bytes(out)) != uint64(i+3)*n/3 {
					t.Errorf("task of %d: %v, %x", i, err, w.bytes(out))
				}
				_, err := out.WriteAt(make([]byte, 8), 0)
				w.must(err)
			}
		})
	}
	all.Wait()
	if executed(w, there) != workers*times {
		t.Errorf("%d tasks were executed, want %d", executed(w, there), workers*times)
	}
	d := task.Descriptor{
		Kernel: task.KernelSum, Result: operand(here.memory(make([]byte, 8), allRights), task.Uint64, true, 1),
		Operands: []task.Operand{operand(here.memory(make([]byte, 1<<16), allRights), task.Uint8, true, 1<<16)},
	}
	if err := client.Do(w.limit(), &d); !errors.Is(err, &task.Error{Status: task.StatusMemory}) {
		t.Errorf("an operand that is longer than the memory of the queue: %v", err)
	}
	var c [1]verbs.Completion
	if there.cq.Poll(c[:]) != 0 {
		t.Errorf("the driver got %+v", c[0])
	}
	w.must(client.Close())
	w.must(tasks.Close(w.limit()))
}

// executed is how many tasks the cores of a card have executed.
func executed(w *liveWorld, n *node) (sum uint64) {
	for i := range 32 {
		sum += regs.TaskOf(n.card).CoreTasks(i)
	}
	return sum
}

// parallel is a card whose kernel FirstOwnKernel is a function, and a client of it.
func parallel(t *testing.T, depth int, run kernel) (w *liveWorld, client *task.Client, there *node, tasks *driver.TaskQueue, do func() error) {
	w = newLiveWorld(t, card.Faults{}, false)
	here, there := w.pair(rc)
	kernels := task.Builtin()
	w.must(kernels.Register(task.FirstOwnKernel, "own", run))
	cores, err := there.m.StartKernels(kernels)
	w.must(err)
	t.Cleanup(func() { w.must(cores.Close(w.limit())) })
	tasks, err = there.dev.ServeTasks(there.qp.(*driver.QP), depth, 1<<16)
	w.must(err)
	w.connect(here, there)
	client, err = task.NewClient(task.ClientConfig{PD: here.pd, QP: here.qp, CQ: here.cq})
	w.must(err)
	t.Cleanup(func() { w.must(client.Close()) })
	do = func() error {
		out := here.memory([]byte{0}, allRights)
		d := task.Descriptor{Kernel: task.FirstOwnKernel, Result: operand(out, task.Uint8, true, 1)}
		err := client.Do(w.limit(), &d)
		if got := w.bytes(out)[0]; (err == nil) != (got == 1) {
			t.Errorf("%v, and the result is %d", err, got)
		}
		return err
	}
	return w, client, there, tasks, do
}

// Two tasks of another node are executed at the same time: each waits for the start of the other.
func TestRemoteParallel(t *testing.T) {
	meet := make(chan struct{})
	w, _, _, tasks, do := parallel(t, 4, func(ctx context.Context, out []byte) error {
		select {
		case meet <- struct{}{}:
		case <-meet:
		case <-ctx.Done():
			return ctx.Err()
		}
		out[0] = 1
		return nil
	})
	ended := make(chan error, 2)
	for range 2 {
		go func() { ended <- do() }()
	}
	for range 2 {
		w.must(<-ended)
	}
	w.must(tasks.Close(w.limit()))
}

// Close of a task queue waits for a kernel in execution, in bounded time: its memory is in use until
// then. The result is not written.
func TestRemoteClose(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	w, client, there, tasks, do := parallel(t, 1, func(_ context.Context, out []byte) error {
		close(began)
		<-release
		out[0] = 1
		return nil
	})
	ended := make(chan error, 1)
	go func() { ended <- do() }()
	<-began
	if err := w.serve(there, 1, 1<<16); err == nil {
		t.Error("a second task queue while the receive of the first one is in use")
	}
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := tasks.Close(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close with a kernel in execution: %v", err)
	}
	close(release)
	w.must(tasks.Close(w.limit()))
	w.must(client.Close())
	if err := <-ended; err == nil {
		t.Error("a task of a queue that was closed has success")
	}
}
