// SPDX-License-Identifier: Apache-2.0

package card

import (
	"context"
	"errors"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/internal/spans"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// taskQueue is a region of kind 2: the card executes the tasks that a peer sends to a queue pair
// (S1.7). A task.Server does the work; its work requests, receives and memory are the card's own. So
// the driver is not part of it: descriptors, operands and results are in the DDR, and answers leave
// from there.
//
// A goroutine runs the server. It takes the model's lock for each access.
type taskQueue struct {
	u      *Tasks
	i      uint32 // element of block mr
	x      *queuePair
	key    uint32
	va     uint64
	depth  int
	ctx    context.Context
	cancel context.CancelFunc
	notify chan struct{} // signal of a completion, if the server has asked for that

	// Free offsets in the region; guarded by the model's lock, as the fields below.
	room      spans.List // offsets in the region that are free
	completed []verbs.Completion
	armed     bool
	ended     bool // nothing is accessed any more
	closing   bool // the driver has cleared valid
}

var errNoPair = errors.New("the queue pair was reset")

var errTaskQueue = errors.New("a task queue needs cores, a queue pair of RC without receives, and memory of its own for descriptors")

// newTaskQueue returns the task queue of a region that the driver registers.
func (d *dataPath) newTaskQueue(i uint32, e regs.Mr, c regs.MrControl) (*taskQueue, error) {
	u, depth := d.m.tasks, e.Tasks().TaskDepth()
	x := d.qps[e.Tasks().TaskQp()]
	switch {
	case u == nil || u.closed || x == nil || x.q.Type() != verbs.RC || x.srq != nil || x.pd != e.Domain().Pd():
	case x.q.State() == verbs.StateErr || x.q.RecvQueued() > 0 || x.recv.tasks != nil:
	case depth < 1 || depth > task.MaxDepth || depth > x.rq.entries || e.Length() < uint64(task.ServerBytes(int(depth))):
	case !c.LocalWrite() || c.RemoteWrite() || c.RemoteRead() || c.RemoteAtomic() || c.BindWindows() || c.ZeroBased() || c.Invalidatable():
	default:
		t := &taskQueue{u: u, i: i, x: x, key: e.Key(), va: e.Va(), depth: int(depth), notify: make(chan struct{}, 1), room: spans.New(0, e.Length())}
		t.ctx, t.cancel = context.WithCancel(context.Background())
		return t, nil
	}
	return nil, errTaskQueue
}

// start runs the queue, after its region was registered. The model's lock is held.
func (t *taskQueue) start() {
	t.x.recv.tasks = t
	t.u.queues[t] = struct{}{}
	t.u.ended.Go(t.run)
}

func (t *taskQueue) run() {
	s, err := task.NewServer(task.ServerConfig{
		Executor: t.u.exec, PD: t, QP: t, CQ: t, Depth: t.depth, Memory: taskMemory{t.u.m, func(m mem.Memory) task.Memory { return task.Remote(m, t.x.pd, t.x.num) }},
	})
	t.locked(func(d *dataPath) { d.mem.showRegion(t.i, err == nil, false) })
	if err == nil {
		_ = s.Serve(t.ctx) // why it ends is in the state of the queue pair
	}
	t.locked(func(d *dataPath) {
		t.ended = true
		delete(t.u.queues, t)
		d.mem.showRegion(t.i, err == nil, true)
		if t.closing {
			e := regs.MrOf(d.in, int(t.i))
			e.SetControl(e.Control().WithValid(false))
			d.removeRegion(t.i)
		}
	})
	t.cancel()
}

// close has the queue end. It returns false if the region must exist until then.
func (t *taskQueue) close() bool {
	t.closing = true
	t.cancel()
	return t.ended
}

// locked calls do with the model's lock.
func (t *taskQueue) locked(do func(d *dataPath)) {
	t.u.m.lock.Lock()
	defer t.u.m.lock.Unlock()
	do(t.u.m.data)
}

// complete takes a completion of the queue pair. The model's lock is held.
func (t *taskQueue) complete(c verbs.Completion) {
	if t.ended {
		return
	}
	t.completed = append(t.completed, c)
	if t.armed {
		t.armed = false
		signal(t.notify)
	}
}

// Poll, RequestNotify and Notify implement task.Completions.

// Poll implements task.Completions.
func (t *taskQueue) Poll(out []verbs.Completion) (n int) {
	t.locked(func(*dataPath) {
		n = copy(out, t.completed)
		t.completed = t.completed[n:]
	})
	return n
}

// RequestNotify implements task.Completions.
func (t *taskQueue) RequestNotify(bool) { t.locked(func(*dataPath) { t.armed = true }) }

// Notify implements task.Completions.
func (t *taskQueue) Notify() <-chan struct{} { return t.notify }

// PostSend implements task.Poster.
func (t *taskQueue) PostSend(wr *verbs.SendWR) (err error) {
	t.locked(func(d *dataPath) {
		t.u.showCores() // what is sent may be an answer
		if d.qps[t.x.num] != t.x {
			err = errNoPair
			return
		}
		sent := func(id uint64, s verbs.Status) { t.complete(verbs.Completion{WRID: id, QPN: t.x.num, Status: s}) }
		err = t.x.post(wr, sent)
		signal(d.m.wake)
	})
	return err
}

// PostRecv implements task.Poster.
func (t *taskQueue) PostRecv(wr *verbs.RecvWR) (err error) {
	t.locked(func(d *dataPath) {
		if d.qps[t.x.num] != t.x {
			err = errNoPair
			return
		}
		err = d.net.core.Recv(&t.x.q, wr)
		signal(d.m.wake)
	})
	return err
}

// RegMR implements verbs.Registrar. The card has no other memory than the DDR.
func (t *taskQueue) RegMR([]byte, verbs.Access) (verbs.MR, error) { return nil, errors.ErrUnsupported }

var errNoRoom = errors.New("card: the region of the task queue has no room")

// AllocDM implements verbs.DeviceMemory: it takes a part of the region.
func (t *taskQueue) AllocDM(bytes int, _ verbs.Access) (dm verbs.DM, err error) {
	t.locked(func(*dataPath) {
		const align = 64
		s, ok := t.room.Take((uint64(bytes)+align-1)&^(align-1), align)
		if !ok { // the end of the region
			s, ok = t.room.Take(uint64(bytes), align)
		}
		if !ok {
			err = errNoRoom
			return
		}
		dm = &taskMemoryPart{t, s, uint64(bytes)}
	})
	return dm, err
}

// taskMemoryPart is a part of the region of a task queue.
type taskMemoryPart struct {
	t      *taskQueue
	at     spans.Span
	length uint64
}

var errPart = errors.New("card: the access is not inside of its part of a task queue")

func (p *taskMemoryPart) VA() uint64   { return p.t.va + p.at.From }
func (p *taskMemoryPart) Len() uint64  { return p.length }
func (p *taskMemoryPart) LKey() uint32 { return p.t.key }
func (p *taskMemoryPart) RKey() uint32 { return 0 }

func (p *taskMemoryPart) Deregister() error {
	p.t.locked(func(*dataPath) { p.t.room.Give(p.at) })
	return nil
}

func (p *taskMemoryPart) ReadAt(b []byte, off int64) (int, error) {
	return p.access(b, off, func(m mem.Memory, va uint64) mem.Fault { return m.ReadLocal(p.t.x.pd, p.t.key, va, b) })
}

func (p *taskMemoryPart) WriteAt(b []byte, off int64) (int, error) {
	return p.access(b, off, func(m mem.Memory, va uint64) mem.Fault { return m.WriteLocal(p.t.x.pd, p.t.key, va, b) })
}

func (p *taskMemoryPart) access(b []byte, off int64, do func(m mem.Memory, va uint64) mem.Fault) (n int, err error) {
	if off < 0 || uint64(off) > p.length || uint64(len(b)) > p.length-uint64(off) {
		return 0, errPart
	}
	p.t.locked(func(d *dataPath) {
		if n = len(b); do(d.mem.memory(), p.VA()+uint64(off)) != mem.FaultNone {
			n, err = 0, errPart
		}
	})
	return n, err
}
