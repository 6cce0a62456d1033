// SPDX-License-Identifier: Apache-2.0

package task

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

// Each of two tasks waits for the start of the other: they end only if cores work in parallel
// (S1.1).
func TestParallel(t *testing.T) {
	var started sync.WaitGroup
	started.Add(2)
	w := newWorld(t, Config{Cores: 2, Kernels: with(t, func(ctx context.Context, _ *Descriptor, _ [][]byte, out []byte) error {
		started.Done()
		both := make(chan struct{})
		go func() { started.Wait(); close(both) }()
		select {
		case <-both:
			out[0] = 1
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})})
	out := make([]byte, 2)
	a := w.submit(Descriptor{Kernel: FirstOwnKernel, Result: w.operand(out[:1], Uint8, scalar)})
	b := w.submit(Descriptor{Kernel: FirstOwnKernel, Result: w.operand(out[1:], Uint8, scalar)})
	want(t, "first", wait(t, a), StatusOK)
	want(t, "second", wait(t, b), StatusOK)
	if !bytes.Equal(out, []byte{1, 1}) {
		t.Errorf("results %d", out)
	}
	for i, c := range w.exec.Cores() {
		if c.Tasks != 1 || c.Errors != 0 || c.Busy <= 0 {
			t.Errorf("core %d: %+v", i, c)
		}
	}
}

// blocked is an executor of one core whose tasks wait for release. started has the id of each
// task that has started.
func blocked(t *testing.T, queue int) (w *world, started chan ID, release chan error) {
	started, release = make(chan ID, 100), make(chan error, 100)
	w = newWorld(t, Config{Cores: 1, Queue: queue, Kernels: with(t, func(ctx context.Context, d *Descriptor, _ [][]byte, out []byte) error {
		started <- d.ID
		select {
		case err := <-release:
			out[0] = 1
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})})
	return w, started, release
}

// Tasks with the same id are one task: it is executed once, and all get its answer.
func TestExecutedOnce(t *testing.T) {
	w, started, release := blocked(t, 10)
	out := make([]byte, 1)
	d := Descriptor{ID: 7, Kernel: FirstOwnKernel, Result: w.operand(out, Uint8, scalar)}
	first, second := w.submitAs(d), w.submitAs(d)
	testkit.Receive(t, "it starts", started)
	third := w.submitAs(d)
	release <- errors.New("no")
	for _, c := range []<-chan Answer{first, second, third, w.submitAs(d)} {
		want(t, "the one task", wait(t, c), StatusFailed)
	}
	if len(started) != 0 || w.exec.Cores()[0].Tasks != 1 || w.exec.Cores()[0].Errors != 1 || out[0] != 0 {
		t.Errorf("started again: %d; %+v; result %d", len(started), w.exec.Cores(), out)
	}
	// The same id of another origin is another task.
	o := testkit.Must1(w.exec.NewOrigin(Local(w.table, w.pd)))(t)
	release <- nil
	c := make(chan Answer, 1)
	o.Submit(Task{Descriptor: d, Done: func(a Answer) { c <- a }})
	want(t, "of another origin", wait(t, c), StatusOK)
	if out[0] != 1 {
		t.Error("not written")
	}
	d.ID = (7 - History) & MaxID
	want(t, "behind the window", wait(t, w.submitAs(d)), StatusStale)
	if len(started) != 2-1 || w.exec.Cores()[0].Tasks != 2 {
		t.Errorf("%d started, %+v", len(started), w.exec.Cores())
	}
}

// A repetition is answered after Done of the task has returned, which may pass on the result.
func TestDoneComesFirst(t *testing.T) {
	w := newWorld(t, Config{Cores: 2})
	d := Descriptor{Kernel: KernelMax, Result: w.operand(make([]byte, 1), Uint8, scalar), Operands: []Operand{w.operand([]byte{1}, Uint8, scalar)}}
	var returned atomic.Bool
	order := make(chan bool, 2)
	w.origin.Submit(Task{Descriptor: d, Done: func(Answer) {
		w.origin.Submit(Task{Descriptor: d, Done: func(Answer) { order <- returned.Load() }})
		order <- false
		returned.Store(true)
	}})
	if testkit.Receive(t, "a task of the order", order) || !testkit.Receive(t, "a task of the order", order) {
		t.Error("the repetition was answered first")
	}
}

// A full queue answers with busy, and the same task is executed when there is room.
func TestBusy(t *testing.T) {
	w, started, release := blocked(t, 2)
	d := Descriptor{Kernel: FirstOwnKernel, Result: w.operand(make([]byte, 1), Uint8, scalar)}
	a, b := w.submit(d), w.submit(d)
	d.ID = w.next
	for range 3 {
		want(t, "third", wait(t, w.submitAs(d)), StatusBusy)
	}
	d.ID = 0
	want(t, "repeated while full", wait(t, w.submitAs(d)), StatusBusy)
	o := testkit.Must1(w.exec.NewOrigin(Local(w.table, w.pd)))(t)
	other := make(chan Answer, 1)
	o.Submit(Task{Descriptor: d, Done: func(a Answer) { other <- a }})
	release <- nil
	release <- nil
	release <- nil
	for _, c := range []<-chan Answer{a, b, other} {
		want(t, "taken", wait(t, c), StatusOK)
	}
	release <- nil
	d.ID = w.next
	want(t, "third again", wait(t, w.submitAs(d)), StatusOK)
	close(started)
	var order []ID
	for id := range started {
		order = append(order, id)
	}
	// The tasks of the first origin, the other origin's in between, and the third one.
	if len(order) != 4 || order[0] != 0 || order[3] != 2 || order[1]+order[2] != 1 {
		t.Errorf("started in the order %d", order)
	}
}

// A task that is in execution for long is remembered, however far later ids are. Once it has
// ended, it is too old to be repeated.
func TestLongTask(t *testing.T) {
	w, started, release := blocked(t, 10)
	d := Descriptor{Kernel: FirstOwnKernel, Result: w.operand(make([]byte, 1), Uint8, scalar)}
	a := w.submitAs(d)
	testkit.Receive(t, "it starts", started)
	d.ID = 3 * History
	b := w.submitAs(d)
	d.ID = 0
	again := w.submitAs(d)
	release <- nil
	release <- errors.New("the second one")
	want(t, "long", wait(t, a), StatusOK)
	want(t, "repeated meanwhile", wait(t, again), StatusOK)
	want(t, "later", wait(t, b), StatusFailed)
	want(t, "repeated later", wait(t, w.submitAs(d)), StatusStale)
	d.ID = 3 * History
	want(t, "later one repeated", wait(t, w.submitAs(d)), StatusFailed)
	if got := w.exec.Cores()[0].Tasks; got != 2 {
		t.Errorf("%d tasks executed", got)
	}
}

// Fetch runs after the checks, and the task starts when it has ended.
func TestFetch(t *testing.T) {
	w := newWorld(t, Config{Cores: 1})
	in, out := []byte{1, 2, 3, 4}, make([]byte, 8)
	d := Descriptor{Kernel: KernelSum, Result: w.operand(out, Uint64, scalar), Operands: []Operand{w.operand(in, Uint8, Shape{4})}}
	c := make(chan Answer, 1)
	done := func(a Answer) { c <- a }
	var ready func(*Error)
	w.origin.Submit(Task{Descriptor: d, Done: done, Fetch: func(r func(*Error)) { ready = r }})
	in[0] = 11 // arrives late
	ready(nil)
	want(t, "fetched", wait(t, c), StatusOK)
	if out[0] != 20 {
		t.Errorf("sum %d", out)
	}
	d.ID = 1
	w.origin.Submit(Task{Descriptor: d, Done: done, Fetch: func(r func(*Error)) { r(fail(StatusAccess, "gone")) }})
	want(t, "not fetched", wait(t, c), StatusAccess)
	d.ID, d.Result.Type, d.Result.Length = 2, Uint32, 4
	w.origin.Submit(Task{Descriptor: d, Done: done, Fetch: func(func(*Error)) { t.Error("a wrong task is fetched") }})
	want(t, "wrong", wait(t, c), StatusOperand)
}

// Close ends all tasks: those that wait, one whose kernel sees the end of its context, and one
// whose operands never come. Nothing is written.
func TestCloseOrigin(t *testing.T) {
	w, started, _ := blocked(t, 10)
	out := make([]byte, 1)
	d := Descriptor{Kernel: FirstOwnKernel, Result: w.operand(out, Uint8, scalar)}
	running := w.submit(d)
	testkit.Receive(t, "it starts", started)
	waiting := w.submit(d)
	fetching := make(chan Answer, 1)
	d.ID = w.next
	var ready func(*Error)
	w.origin.Submit(Task{Descriptor: d, Done: func(a Answer) { fetching <- a }, Fetch: func(r func(*Error)) { ready = r }})
	ctx := testkit.Context(t)
	testkit.Must(t, w.origin.Close(ctx))
	for _, c := range []<-chan Answer{running, waiting, fetching, w.submit(d), w.submitAs(Descriptor{Result: d.Result})} {
		want(t, "closed", wait(t, c), StatusCanceled)
	}
	ready(nil) // too late
	ready(fail(StatusMemory, "too late"))
	if len(fetching) != 0 || w.exec.queue.start(0, 0) != nil {
		t.Error("a canceled task starts, or ends again")
	}
	if out[0] != 0 || len(started) != 0 {
		t.Errorf("written %d, started %d", out, len(started))
	}
	if err := w.origin.Close(ctx); err != nil {
		t.Error("second close:", err)
	}
}

// A kernel that ignores its context holds up Close until the caller's context ends. Its result
// is not written.
func TestCloseStubborn(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	w := newWorld(t, Config{Cores: 1, Kernels: with(t, func(_ context.Context, _ *Descriptor, _ [][]byte, out []byte) error {
		close(entered)
		<-leave
		out[0] = 1
		return nil
	})})
	out := make([]byte, 1)
	a := w.submit(Descriptor{Kernel: FirstOwnKernel, Result: w.operand(out, Uint8, scalar)})
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.origin.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("close of the origin: %v", err)
	}
	for range 2 {
		if err := w.exec.Close(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("close: %v", err)
		}
	}
	w.forget() // no access is in progress, and none comes
	close(leave)
	want(t, "stubborn", wait(t, a), StatusCanceled)
	if out[0] != 0 {
		t.Error("written")
	}
	if _, err := w.exec.NewOrigin(nil); err == nil {
		t.Error("a new origin of a closed executor")
	}
}

// The memory for a result is 0, also after other tasks.
func TestResultBeginsZero(t *testing.T) {
	w := newWorld(t, Config{Cores: 1, Kernels: with(t, func(context.Context, *Descriptor, [][]byte, []byte) error { return nil })})
	b := bytes.Repeat([]byte{1}, 64)
	o := w.operand(b, Uint8, Shape{64})
	want(t, "add", w.run(Descriptor{Kernel: KernelAdd, Operands: []Operand{o, o}, Result: o}), StatusOK)
	want(t, "nothing", w.run(Descriptor{Kernel: FirstOwnKernel, Result: o}), StatusOK)
	if !bytes.Equal(b, make([]byte, 64)) {
		t.Errorf("%d", b)
	}
}

// Many goroutines and origins: each task has one answer and the right result.
func TestManyOrigins(t *testing.T) {
	const origins, tasks = 8, 200
	w := newWorld(t, Config{Cores: 4, Queue: tasks})
	in := w.operand([]byte{1, 2, 3, 4}, Uint8, Shape{4})
	r := make([]byte, origins*tasks*8)
	result := w.operand(r, Uint64, Shape{origins * tasks})
	var answers atomic.Int64
	var all sync.WaitGroup
	for i := range origins {
		o := testkit.Must1(w.exec.NewOrigin(Local(w.table, w.pd)))(t)
		for k := range tasks {
			d := Descriptor{ID: ID(k), Kernel: KernelSum, Operands: []Operand{in}, Result: result}
			d.Result.VA += uint64(i*tasks+k) * 8
			d.Result.Length, d.Result.Shape = 8, scalar
			all.Add(1)
			go o.Submit(Task{Descriptor: d, Done: func(a Answer) {
				want(t, "task", a, StatusOK)
				answers.Add(1)
				all.Done()
			}})
		}
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	testkit.Receive(t, "it ends", done)
	for i := 0; i < len(r); i += 8 {
		if r[i] != 10 {
			t.Fatalf("result %d is %d", i/8, r[i])
		}
	}
	total := uint64(0)
	for _, c := range w.exec.Cores() {
		total += c.Tasks
	}
	if total != origins*tasks || answers.Load() != origins*tasks {
		t.Errorf("%d tasks executed, %d answers", total, answers.Load())
	}
}

func TestConfigRefused(t *testing.T) {
	for _, c := range []Config{{Cores: -1}, {Cores: maxCores + 1}, {Queue: -1}, {Queue: maxQueue + 1}, {MaxBytes: maxBytes + 1}} {
		if _, err := NewExecutor(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	r := Builtin()
	if r.Register(KernelAdd, "other", add{}) == nil || r.Register(FirstOwnKernel, "add", add{}) == nil || r.Register(FirstOwnKernel, "", add{}) == nil {
		t.Error("a number or name that is not free")
	}
	if len(r.IDs()) != 8 || r.Name(KernelGEMM) != "gemm" || r.Name(99) != "" {
		t.Errorf("%d, %q", r.IDs(), r.Name(KernelGEMM))
	}
}
