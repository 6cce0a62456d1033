// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// TaskQueue has the cores of a card execute the tasks that a peer sends to a queue pair (S1.7,
// docs/program/compute.md). The driver has no part in their execution: descriptors, operands, results and
// answers are in card memory.
type TaskQueue struct {
	mr    *MR
	space *hwoffload.Space
}

// tasksOf is where the tasks of a region of kind 2 come from.
type tasksOf struct{ qpn, depth uint32 }

// stageBytes is how much memory a task of a TaskQueue has at least for operands and results of the
// peer.
const stageBytes = 4096

// ServeTasks makes a task queue of a queue pair of service RC, before the peer sends: best in INIT,
// between verbs.ToInit and verbs.Connect. The receive queue of the queue pair is the card's then,
// and no receive may have been posted. Tasks name memory of the card by rkeys of the protection
// domain of the queue pair.
//
// depth is how many tasks can be received and not answered, 1 to 512, and at most MaxRecv of the
// queue pair; the peer's next SEND is delayed (RNR). bytes is the memory for them: descriptors and
// answers, and what is left is for operands and results of the peer. A task waits until there is
// room for its operands; it fails if all the memory is too small.
func (d *Device) ServeTasks(q *QP, depth int, bytes uint64) (*TaskQueue, error) {
	if err := d.require("cores for compute tasks", regs.IdentCapabilities.Compute); err != nil {
		return nil, err
	}
	if q.d != d || q.init.Type != verbs.RC || q.srq != nil {
		return nil, errors.New("card: a task queue needs a queue pair of this device, of service RC and without SRQ")
	}
	if depth < 1 || depth > task.MaxDepth || depth > 1<<q.rq.log2 {
		return nil, fmt.Errorf("card: a task queue of %d tasks: use 1 to %d, and at most MaxRecv of the queue pair, %d", depth, task.MaxDepth, 1<<q.rq.log2)
	}
	if least := uint64(task.ServerBytes(depth) + stageBytes); bytes < least {
		return nil, fmt.Errorf("card: a task queue of %d tasks with %d bytes: give %d or more", depth, bytes, least)
	}
	space, err := d.card.Allocator().Alloc(bytes, 0)
	if err != nil {
		return nil, err
	}
	pages, err := space.Pages(1 << smallShift)
	if err != nil {
		return nil, errors.Join(err, space.Free())
	}
	mr, err := d.RegMR(Spec{
		PD: q.pd.num, Access: verbs.AccessLocalWrite, Pages: pages, PageShift: smallShift, Len: bytes, VA: pages[0],
		tasks: &tasksOf{uint32(q.num), uint32(depth)},
	})
	if err != nil {
		err = fmt.Errorf("card: task queue of queue pair %d in %s: is it in INIT, without receives, and without another task queue since its RESET? %w",
			q.num, q.State(), err)
		return nil, errors.Join(err, space.Free())
	}
	return &TaskQueue{mr, space}, nil
}

// Ended reports whether the queue takes no tasks any more, because the connection has ended. Close
// is called then too.
func (t *TaskQueue) Ended() bool { return t.mr.Invalid() }

// Close cancels the tasks. When it has returned nil, the card accesses no memory for them. The caller
// destroys the queue pair afterwards.
func (t *TaskQueue) Close(ctx context.Context) error {
	for {
		err := t.mr.Deregister()
		if err == nil {
			return t.space.Free()
		}
		if !errors.Is(err, verbs.ErrBusy) {
			return err
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("card: task queue: kernels are still in execution: %w", err)
		}
	}
}
