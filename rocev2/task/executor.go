// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	_ "github.com/softroce/softroce-xdp/internal/platform" // 64-bit Linux only
)

// Config are the properties of an executor. A zero value is the default.
type Config struct {
	Cores    int       // tasks in execution at the same time; default: the CPUs of the process
	Queue    int       // tasks of an origin that have not ended; default 256, at most 512
	MaxBytes uint64    // operands and result of a task together; default 64 MB, at most 1 GB
	Kernels  *Registry // default: those of Builtin

	// Background has the cores run at the lowest priority of the operating system (SCHED_IDLE of
	// Linux): they use the time that no other thread wants. Each core is a thread of its own then.
	Background bool
}

const (
	maxCores = 1024
	maxQueue = History / 2
	maxBytes = 1 << 30
)

func (c Config) withDefaults() (Config, error) {
	if c.Cores == 0 {
		c.Cores = runtime.GOMAXPROCS(0)
	}
	if c.Queue == 0 {
		c.Queue = 256
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 64 << 20
	}
	if c.Kernels == nil {
		c.Kernels = Builtin()
	}
	switch {
	case c.Cores < 1 || c.Cores > maxCores:
		return c, fmt.Errorf("task: %d cores: use 1 to %d, or 0 for the CPUs of the process", c.Cores, maxCores)
	case c.Queue < 1 || c.Queue > maxQueue:
		return c, fmt.Errorf("task: a queue of %d tasks: use 1 to %d, or 0 for 256", c.Queue, maxQueue)
	case c.MaxBytes > maxBytes:
		return c, fmt.Errorf("task: %d bytes in one task: the limit is %d", c.MaxBytes, maxBytes)
	}
	return c, nil
}

// Task is what an Origin executes.
type Task struct {
	Descriptor Descriptor // descriptor; its Operands must not change until Done is called

	// Memory is that of this task; nil means that of the origin.
	Memory Memory

	// Fetch is for operands that are not in memory yet; nil if they are. It is called once,
	// after the task was checked and before it starts, and must not block. It calls ready,
	// in any goroutine, once the operands are in memory (nil), or cannot be.
	Fetch func(ready func(err *Error))

	// Done is called once, with the answer, in any goroutine. It must not block.
	Done func(Answer)
}

// Executor executes tasks on its cores. All methods may be called concurrently.
type Executor struct {
	config  Config
	began   time.Time
	stopped sync.WaitGroup // cores

	lock    sync.Mutex // guards what follows, and the state of origins
	work    sync.Cond  // a task can start, or closed has changed
	quiet   sync.Cond  // the last access of a closed origin has ended
	queue   queue
	origins map[*Origin]struct{}
	closed  bool
}

// NewExecutor starts an executor. Close ends it.
func NewExecutor(c Config) (*Executor, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Executor{
		config: c, began: time.Now(), origins: map[*Origin]struct{}{},
		queue: queue{depth: c.Queue, cores: make([]core, c.Cores)},
	}
	e.work.L, e.quiet.L = &e.lock, &e.lock
	started := make(chan error, c.Cores)
	for i := range c.Cores {
		e.stopped.Go(func() {
			var err error
			if c.Background {
				err = lowestPriority()
			}
			if started <- err; err == nil {
				e.run(i)
			}
		})
	}
	for range c.Cores {
		err = errors.Join(err, <-started)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("task: cores at the lowest priority: %w", err), e.Close(context.Background()))
	}
	return e, nil
}

// now is the time for the queue.
func (e *Executor) now() time.Duration { return time.Since(e.began) }

// Cores returns the counters of each core.
func (e *Executor) Cores() []CoreCounters {
	e.lock.Lock()
	defer e.lock.Unlock()
	return e.queue.counters(e.now())
}

// Close cancels all tasks and ends the cores. Tasks that have not started end at once, and no
// memory of a task is accessed when it returns. It waits for kernels in execution, which see
// that their context has ended. If ctx ends before they do, it returns an error; their results
// are not written.
func (e *Executor) Close(ctx context.Context) error {
	e.lock.Lock()
	e.closed = true
	var all []*Origin
	for o := range e.origins {
		all = append(all, o)
	}
	e.work.Broadcast()
	e.lock.Unlock()
	var failed []error
	for _, o := range all {
		failed = append(failed, o.Close(ctx))
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	e.stopped.Wait()
	return nil
}

// run is a core.
func (e *Executor) run(c int) {
	var s scratch
	e.lock.Lock()
	defer e.lock.Unlock()
	for {
		j := e.queue.start(e.now(), c)
		if j == nil {
			if e.closed {
				return
			}
			e.work.Wait()
			continue
		}
		e.lock.Unlock()
		err := s.execute(j)
		e.lock.Lock()
		e.queue.stop(e.now(), c, err)
		e.complete(j, err)
	}
}

// complete ends a task, unless it has ended. Its Done is called before its answer can be
// repeated: what Done does to pass on the result comes before any other use of it. The lock
// must be held; it is released meanwhile.
func (e *Executor) complete(j *job, err *Error) {
	if j.over {
		return
	}
	j.over = true
	a := answerTo(j.task.Descriptor.ID, err)
	e.lock.Unlock()
	j.task.Done(a)
	e.lock.Lock()
	others := e.queue.end(&j.from.origin, j, a)
	j.from.checkIdle()
	if len(others) == 0 {
		return
	}
	e.lock.Unlock()
	for _, done := range others {
		done(a)
	}
	e.lock.Lock()
}
