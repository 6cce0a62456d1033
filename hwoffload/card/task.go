// SPDX-License-Identifier: Apache-2.0

package card

import (
	"context"
	"sync"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const (
	taskSlot     = regs.TaskSlotBytesReset
	maxTaskLog2  = 9
	taskIndexMax = 1<<16 - 1
)

// Tasks executes the tasks of block task. Commands are taken in the call that writes them; a
// goroutine carries them out.
type Tasks struct {
	m     *Model
	exec  *task.Executor
	wake  chan struct{}
	ended sync.WaitGroup

	// Queues in use; guarded by the model's lock.
	queues  map[*taskQueue]struct{}
	ring    taskRing // ring of the latest start
	starts  int      // start and stop commands so far
	running bool
	closed  bool
}

// taskRing is where descriptors and answers are. Indexes are modulo 2^16.
type taskRing struct {
	base, answers uint64
	entries       uint32
	pd            uint32

	producer, consumer uint32 // counters of descriptors
	answered, released uint32 // counters of answers
}

// StartTasks starts the cores of the card, with the kernels of task.Builtin, until Close: block task
// has no effect without, and regions of kind 2 are refused. There is one Tasks for a model at a time.
func (m *Model) StartTasks() (*Tasks, error) { return m.StartKernels(task.Builtin()) }

// StartKernels is StartTasks with other kernels.
func (m *Model) StartKernels(kernels *task.Registry) (*Tasks, error) {
	exec, err := task.NewExecutor(task.Config{Cores: regs.TaskCoresReset, Queue: 1 << maxTaskLog2, Kernels: kernels})
	if err != nil {
		return nil, err
	}
	u := &Tasks{m: m, exec: exec, wake: make(chan struct{}, 1), queues: map[*taskQueue]struct{}{}}
	m.lock.Lock()
	m.tasks = u
	m.setCapabilities()
	m.lock.Unlock()
	u.ended.Go(u.run)
	return u, nil
}

// Close cancels all tasks and ends the cores. When it returns nil, no memory is accessed.
func (u *Tasks) Close(ctx context.Context) error {
	u.m.lock.Lock()
	u.closed, u.running = true, false
	if u.m.tasks == u {
		u.m.tasks = nil
		u.m.setCapabilities()
	}
	for t := range u.queues {
		t.cancel()
	}
	u.m.lock.Unlock()
	u.signal()
	u.ended.Wait()
	return u.exec.Close(ctx)
}

func (u *Tasks) signal() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// command takes a command of block task. The model's lock is held.
func (u *Tasks) command(offset uint64, bits uint32) {
	if u == nil || bits == 0 {
		return
	}
	r := &u.ring
	switch offset {
	case regs.TaskCommandOffset:
		u.setRunning(regs.TaskCommand(bits))
	case regs.TaskSubmitOffset:
		c := regs.TaskSubmit(bits)
		ahead, taken := (c.Producer()-r.released)&taskIndexMax, (r.consumer-r.released)&taskIndexMax
		if u.running && c.SubmitStart() && taken <= ahead && ahead <= r.entries {
			r.producer = c.Producer()
		}
	case regs.TaskReleaseOffset:
		c := regs.TaskRelease(bits)
		if n := (c.CompletionConsumer() - r.released) & taskIndexMax; u.running && c.ReleaseStart() && n <= (r.answered-r.released)&taskIndexMax {
			r.released = c.CompletionConsumer()
		}
	}
	u.signal()
}

// setRunning takes a start or a stop. The goroutine ends what ran before.
func (u *Tasks) setRunning(c regs.TaskCommand) {
	u.starts++
	u.running = false
	status := regs.TaskStatus(0).WithPending(true)
	if c.Start() {
		e := regs.TaskOf(inside{u.m})
		r := taskRing{base: e.RingBase(), answers: e.CompletionBase(), entries: 1 << e.Ring().Log2Entries(), pd: e.Domain().Pd()}
		u.running = e.Ring().Log2Entries() <= maxTaskLog2 && inDDR(r.base, uint64(r.entries)*taskSlot, taskSlot) &&
			inDDR(r.answers, uint64(r.entries)*task.AnswerLen, task.AnswerLen)
		status = status.WithRefused(!u.running)
		u.ring = r
	}
	inside{u.m}.W32(regs.TaskBase+regs.TaskStatusOffset, uint32(status))
}

// inDDR reports whether a ring is aligned and in the memory.
func inDDR(base, size, align uint64) bool {
	return base%align == 0 && base <= hwoffload.DDRBytes && size <= hwoffload.DDRBytes-base
}

// run carries out commands until Close.
func (u *Tasks) run() {
	var origin *task.Origin
	done := 0 // commands to start or stop
	for range u.wake {
		u.m.lock.Lock()
		starts, running, closed, pd := u.starts, u.running, u.closed, u.ring.pd
		u.m.lock.Unlock()
		if (starts != done || closed) && origin != nil {
			_ = origin.Close(context.Background()) // kernels of the card end with their context
			origin = nil
		}
		if closed {
			return
		}
		if starts != done && running {
			origin, _ = u.exec.NewOrigin(taskMemory{u.m, func(m mem.Memory) task.Memory { return task.Local(m, pd) }})
		}
		if starts != done && u.began(starts) {
			done = starts
		}
		if origin != nil {
			u.takeAll(origin, starts)
		}
	}
}

// began shows that a start or stop has ended, unless another one was taken since.
func (u *Tasks) began(starts int) bool {
	u.m.lock.Lock()
	defer u.m.lock.Unlock()
	if u.starts != starts {
		u.signal()
		return false
	}
	in := inside{u.m}
	status := regs.TaskOf(in).Status().WithPending(false).WithRunning(u.running)
	in.W32(regs.TaskBase+regs.TaskStatusOffset, uint32(status))
	u.show()
	return true
}

// takeAll submits the descriptors of the ring.
func (u *Tasks) takeAll(o *task.Origin, starts int) {
	for {
		slot, ok := u.take(starts)
		if !ok {
			return
		}
		done := func(a task.Answer) { u.answer(a, starts) }
		d, err := task.ParseSlot(&slot)
		if err != nil {
			done(task.Answer{ID: d.ID, Status: task.StatusDescriptor})
			continue
		}
		o.Submit(task.Task{Descriptor: d, Done: done})
	}
}

// take reads the next descriptor, if there is one.
func (u *Tasks) take(starts int) (slot [taskSlot]byte, ok bool) {
	u.m.lock.Lock()
	defer u.m.lock.Unlock()
	r := &u.ring
	if u.starts != starts || !u.running || r.consumer == r.producer {
		return slot, false
	}
	at := r.base + uint64(r.consumer%r.entries)*taskSlot
	_ = u.m.data.ddr.ReadAt(slot[:], at) // the ring is in the DDR
	r.consumer = (r.consumer + 1) & taskIndexMax
	u.show()
	return slot, true
}

// answer writes an answer to its ring. There is room: at most as many tasks are taken as answers
// are released.
func (u *Tasks) answer(a task.Answer, starts int) {
	u.m.lock.Lock()
	defer u.m.lock.Unlock()
	u.showCores()
	if u.starts != starts { // canceled by a later start
		return
	}
	r := &u.ring
	_ = u.m.data.ddr.WriteAt(a.Append(nil), r.answers+uint64(r.answered%r.entries)*task.AnswerLen)
	r.answered = (r.answered + 1) & taskIndexMax
	u.show()
}

// showCores writes the counters of the cores to their registers. The model's lock is held, so that
// no older counters follow newer ones.
func (u *Tasks) showCores() {
	for i, c := range u.exec.Cores() {
		at := regs.TaskBase + uint64(i)*8
		inside{u.m}.W64(at+regs.TaskCoreBusyNsOffset, uint64(c.Busy))
		inside{u.m}.W64(at+regs.TaskCoreTasksOffset, c.Tasks)
		inside{u.m}.W64(at+regs.TaskCoreErrorsOffset, c.Errors)
	}
}

// show writes the indexes to their registers. The model's lock is held.
func (u *Tasks) show() {
	in := inside{u.m}
	in.W32(regs.TaskBase+regs.TaskConsumerOffset, u.ring.consumer)
	in.W32(regs.TaskBase+regs.TaskCompletionProducerOffset, u.ring.answered)
}

// taskMemory is the memory of tasks: block mr. of says by which keys.
type taskMemory struct {
	m  *Model
	of func(mem.Memory) task.Memory
}

// use calls do with the memory of the data path, which the model's lock guards.
func (t taskMemory) use(do func(task.Memory) mem.Fault) mem.Fault {
	t.m.lock.Lock()
	defer t.m.lock.Unlock()
	return do(t.of(t.m.data.mem.memory()))
}

func (t taskMemory) Check(o *task.Operand, need verbs.Access) mem.Fault {
	return t.use(func(m task.Memory) mem.Fault { return m.Check(o, need) })
}

func (t taskMemory) Read(o *task.Operand, dst []byte) mem.Fault {
	return t.use(func(m task.Memory) mem.Fault { return m.Read(o, dst) })
}

func (t taskMemory) Write(o *task.Operand, src []byte) mem.Fault {
	return t.use(func(m task.Memory) mem.Fault { return m.Write(o, src) })
}
