// SPDX-License-Identifier: Apache-2.0

package task

import "time"

// queue decides which task is executed next, and on which core. It is a pure state machine: no
// goroutine, lock or clock. Times are since any fixed moment.
type queue struct {
	depth int       // tasks of an origin that have not ended
	cores []core    // cores with the tasks that they execute
	ready []*origin // origins with tasks that can start, the next one first
}

// origin is the part of an Origin that the queue keeps.
type origin struct {
	window window
	open   int    // calls of Done that are outstanding
	fifo   []*job // tasks that can start, the oldest first
	listed bool   // the origin is in queue.ready
	closed bool
}

// job is a task that was taken.
type job struct {
	task    Task
	kernel  Kernel
	from    *Origin
	over    bool           // the answer of the job is known
	waiting []func(Answer) // Done of repetitions of its descriptor
}

// core has the counters of a core.
type core struct {
	running *job
	since   time.Duration
	CoreCounters
}

// CoreCounters count what a core has done since the executor began.
type CoreCounters struct {
	Busy   time.Duration // time with tasks, the current one included
	Tasks  uint64        // executed
	Errors uint64        // tasks without success
}

// accept takes a task, or returns the answer to it. A nil job and a false done mean that the
// answer of the same task in execution is the answer: its done was added to it.
func (q *queue) accept(o *origin, t Task) (j *job, a Answer, done bool) {
	id := t.Descriptor.ID
	if o.closed {
		return nil, answerTo(id, &Error{Status: StatusCanceled}), true
	}
	j = o.window.pending[id]
	switch {
	case j == nil && !o.window.admit(id):
		return nil, answerTo(id, &Error{Status: StatusStale}), true
	case j == nil:
		if a, done = o.window.answer(id); done {
			return nil, a, true
		}
	}
	if o.open >= q.depth {
		return nil, answerTo(id, &Error{Status: StatusBusy}), true
	}
	o.open++
	if j != nil {
		j.waiting = append(j.waiting, t.Done)
		return nil, Answer{}, false
	}
	j = &job{task: t}
	if o.window.pending == nil {
		o.window.pending = map[ID]*job{}
	}
	o.window.pending[id] = j
	return j, Answer{}, false
}

// enqueue lets a task start.
func (q *queue) enqueue(o *origin, j *job) {
	if o.closed || j.over { // it is canceled
		return
	}
	o.fifo = append(o.fifo, j)
	if !o.listed {
		o.listed = true
		q.ready = append(q.ready, o)
	}
}

// start begins the next task on a core that is free, or returns nil.
func (q *queue) start(now time.Duration, c int) *job {
	if len(q.ready) == 0 {
		return nil
	}
	o := q.ready[0]
	j := o.fifo[0]
	o.fifo = o.fifo[1:]
	q.ready = q.ready[1:]
	if o.listed = len(o.fifo) > 0; o.listed {
		q.ready = append(q.ready, o)
	}
	q.cores[c].running, q.cores[c].since = j, now
	return j
}

// stop ends the work of a core on its task.
func (q *queue) stop(now time.Duration, c int, err *Error) {
	k := &q.cores[c]
	k.Busy += now - k.since
	k.Tasks++
	if err != nil {
		k.Errors++
	}
	k.running = nil
}

// end records the answer of a task, and returns to whom else it goes.
func (q *queue) end(o *origin, j *job, a Answer) (to []func(Answer)) {
	o.window.end(j.task.Descriptor.ID, a)
	o.open -= 1 + len(j.waiting)
	return j.waiting
}

// close ends all tasks of an origin that have not started, and refuses new ones. It returns
// these tasks.
func (q *queue) close(o *origin) (canceled []*job) {
	o.closed = true
	started := map[*job]bool{}
	for i := range q.cores {
		started[q.cores[i].running] = true
	}
	for _, j := range o.window.pending {
		if !j.over && !started[j] {
			canceled = append(canceled, j)
		}
	}
	o.fifo, o.listed = nil, false
	for i := range q.ready {
		if q.ready[i] == o {
			q.ready = append(q.ready[:i], q.ready[i+1:]...)
			break
		}
	}
	return canceled
}

// counters are those of all cores.
func (q *queue) counters(now time.Duration) []CoreCounters {
	all := make([]CoreCounters, len(q.cores))
	for i := range q.cores {
		k := &q.cores[i]
		all[i] = k.CoreCounters
		if k.running != nil {
			all[i].Busy += now - k.since
		}
	}
	return all
}
