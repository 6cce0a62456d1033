// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Origin is where tasks come from: a queue of this host, or the queue pair of another node. It
// numbers its tasks, and has a queue of its own. All methods may be called concurrently.
type Origin struct {
	exec   *Executor
	memory Memory
	ctx    context.Context // context of the kernels in execution
	cancel context.CancelFunc

	origin // state guarded by the executor's lock, as the fields below

	accessing int           // accesses to memory in progress
	idle      chan struct{} // closed when the origin is closed and has no task
}

// NewOrigin adds an origin, whose tasks access m. Close removes it.
func (e *Executor) NewOrigin(m Memory) (*Origin, error) {
	o := &Origin{exec: e, memory: m, idle: make(chan struct{})}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	e.lock.Lock()
	defer e.lock.Unlock()
	if e.closed {
		o.cancel()
		return nil, errors.New("task: the executor was closed")
	}
	e.origins[o] = struct{}{}
	return o, nil
}

// Submit gives a task to the executor. Its Done is called exactly once: at once if the task is
// refused, or has an id whose task has ended (its answer is repeated then), and otherwise when
// the task ends. Submit does not block.
func (o *Origin) Submit(t Task) {
	if err := t.Descriptor.check(); err != nil {
		t.Done(answerTo(t.Descriptor.ID&MaxID, err))
		return
	}
	if t.Memory == nil {
		t.Memory = o.memory
	}
	e := o.exec
	e.lock.Lock()
	j, a, done := e.queue.accept(&o.origin, t)
	if j != nil {
		j.from = o
	}
	e.lock.Unlock()
	switch {
	case done:
		t.Done(a)
		return
	case j == nil:
		return
	}
	var err *Error
	if j.kernel, err = e.check(&t); err != nil {
		o.ready(j, err)
		return
	}
	if t.Fetch == nil {
		o.ready(j, nil)
		return
	}
	t.Fetch(func(err *Error) { o.ready(j, err) })
}

// ready lets a task start, or ends it.
func (o *Origin) ready(j *job, err *Error) {
	e := o.exec
	e.lock.Lock()
	defer e.lock.Unlock()
	if err != nil {
		e.complete(j, err)
		return
	}
	e.queue.enqueue(&o.origin, j)
	e.work.Signal()
}

// check judges a task before anything is read.
func (e *Executor) check(t *Task) (Kernel, *Error) {
	d := &t.Descriptor
	k := e.config.Kernels.Kernel(d.Kernel)
	if k == nil {
		return nil, fail(StatusKernel, "kernel %d: there are %d", d.Kernel, e.config.Kernels.IDs())
	}
	if n := d.total(); n > e.config.MaxBytes {
		return nil, fail(StatusTooLarge, "%d bytes of operands and result: the limit is %d", n, e.config.MaxBytes)
	}
	if err := k.Check(d.Result, d.Operands); err != nil {
		return nil, fail(StatusOperand, "%s: %v", e.config.Kernels.Name(d.Kernel), err)
	}
	for i := range d.Operands {
		if f := t.Memory.Check(&d.Operands[i], 0); f != mem.FaultNone {
			return nil, fault(fmt.Sprint("operand ", i), &d.Operands[i], f)
		}
	}
	if f := t.Memory.Check(&d.Result, verbs.AccessLocalWrite); f != mem.FaultNone {
		return nil, fault("the result", &d.Result, f)
	}
	return k, nil
}

// fault is the error of a task whose memory was refused.
func fault(what string, o *Operand, f mem.Fault) *Error {
	status := StatusAccess
	if f == mem.FaultBackend {
		status = StatusMemory
	}
	return fail(status, "%s, %d bytes at %#x with key %#x: %v", what, o.Length, o.VA, o.Key, f)
}

// enter begins an access to memory. It returns false if the origin was closed.
func (o *Origin) enter() bool {
	o.exec.lock.Lock()
	defer o.exec.lock.Unlock()
	if o.closed {
		return false
	}
	o.accessing++
	return true
}

// leave ends an access to memory.
func (o *Origin) leave() {
	o.exec.lock.Lock()
	defer o.exec.lock.Unlock()
	if o.accessing--; o.accessing == 0 && o.closed {
		o.exec.quiet.Broadcast()
	}
}

// checkIdle ends Close if the last task has ended. The executor's lock must be held.
func (o *Origin) checkIdle() {
	if !o.closed || o.open > 0 {
		return
	}
	select {
	case <-o.idle:
	default:
		close(o.idle)
	}
}

// Close cancels the tasks of the origin. Those that have not started end at once, and no
// memory is accessed for the origin when it returns. It waits for kernels in execution, which
// see that their context has ended. If ctx ends before they do, it returns an error; their
// results are not written.
func (o *Origin) Close(ctx context.Context) error {
	e := o.exec
	e.lock.Lock()
	canceled := e.queue.close(&o.origin)
	o.cancel()
	for o.accessing > 0 { // copies, which end
		e.quiet.Wait()
	}
	o.checkIdle()
	e.lock.Unlock()
	for _, j := range canceled {
		o.ready(j, &Error{Status: StatusCanceled})
	}
	select {
	case <-o.idle:
	default:
		select {
		case <-o.idle:
		case <-ctx.Done():
			return fmt.Errorf("task: kernels are still in execution: %w", ctx.Err())
		}
	}
	e.lock.Lock()
	delete(e.origins, o)
	e.lock.Unlock()
	return nil
}
