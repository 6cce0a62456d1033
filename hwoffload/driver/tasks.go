// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const (
	maxTaskEntries = 512
	log2Slot       = 8 // task.SlotLen
	log2Answer     = 3 // task.AnswerLen
	indexMask      = 1<<16 - 1
)

// Tasks sends compute tasks to the cores of a card (S1.1). Operands are in card memory, by the
// lkeys of regions. A card has one, which ends with its device. All methods may be called concurrently.
type Tasks struct {
	d             *Device
	log2          uint32
	ring, answers uint64 // DDR addresses

	lock     sync.Mutex
	next     task.ID
	producer uint32 // index of the next descriptor
	read     uint32 // index of the next answer
	stopped  bool
}

// StartTasks starts the compute block for tasks of a protection domain, by its number. At most entries tasks, up
// to 512, are outstanding.
func (d *Device) StartTasks(ctx context.Context, pd uint32, entries int) (*Tasks, error) {
	if entries < 1 || entries > maxTaskEntries {
		return nil, fmt.Errorf("card: a ring of %d tasks: use 1 to %d", entries, maxTaskEntries)
	}
	if pd>>24 != 0 {
		return nil, fmt.Errorf("card: tasks: %w: protection domain %#x: a number has 24 bits", verbs.ErrPD, pd)
	}
	if err := d.require("cores for compute tasks", regs.IdentCapabilities.Compute); err != nil {
		return nil, err
	}
	e := regs.TaskOf(d.card)
	if s := e.Status(); s.Running() || s.Pending() {
		return nil, fmt.Errorf("card: the compute block is %w: stop its tasks first", verbs.ErrBusy)
	}
	t := &Tasks{d: d, log2: log2(entries)}
	var err error
	// Slots are aligned to their size.
	if t.ring, err = d.take(&d.free.memory, task.SlotLen<<t.log2, task.SlotLen); err != nil {
		return nil, err
	}
	if t.answers, err = d.newRing(t.log2, log2Answer); err != nil {
		d.give(&d.free.memory, t.ring, task.SlotLen<<t.log2)
		return nil, err
	}
	if err := t.start(ctx, e, pd); err != nil {
		return nil, err
	}
	return t, nil
}

// start adds the tasks to the objects of the device and starts the compute block. Close of the device, which stops them, waits for it.
func (t *Tasks) start(ctx context.Context, e regs.Task, pd uint32) error {
	t.lock.Lock()
	if err := t.d.add(t); err != nil {
		t.lock.Unlock()
		t.give()
		return err
	}
	e.SetRingBase(t.ring)
	e.SetCompletionBase(t.answers)
	e.SetRing(regs.TaskRing(0).WithLog2Entries(t.log2))
	e.SetDomain(regs.TaskDomain(0).WithPd(pd))
	e.SetCommand(regs.TaskCommand(0).WithStart(true))
	s, err := t.settled(ctx)
	t.lock.Unlock()
	if err == nil && !s.Running() {
		err = fmt.Errorf("card: tasks: %w (status %#x): are its cores started?", errRefused, uint32(s))
	}
	if err != nil {
		return errors.Join(err, t.Stop(ctx))
	}
	return nil
}

// settled waits until the card has ended a command. It looks once more when ctx has ended: this process may have stood still.
func (t *Tasks) settled(ctx context.Context) (regs.TaskStatus, error) {
	var ended error
	for {
		s := regs.TaskOf(t.d.card).Status()
		if err := t.d.card.Err(); err != nil {
			return 0, err
		}
		if !s.Pending() {
			return s, nil
		}
		if ended != nil {
			return 0, fmt.Errorf("card: tasks: the card does not end a command: %w", ended)
		}
		ended = pause(ctx)
	}
}

// pause waits between two polls.
func pause(ctx context.Context) error {
	timer := time.NewTimer(50 * time.Microsecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errStopped is the error of methods after Stop.
var errStopped = fmt.Errorf("card: the queue of tasks %w", verbs.ErrDestroyed)

// Submit gives a task to the card and returns its id, which the answer has. The error wraps
// verbs.ErrQueueFull if there are answers to poll first.
func (t *Tasks) Submit(d task.Descriptor) (task.ID, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.stopped {
		return 0, errStopped
	}
	if t.outstanding() == 1<<t.log2 {
		return 0, fmt.Errorf("card: %d tasks are outstanding: %w", 1<<t.log2, verbs.ErrQueueFull)
	}
	d.ID = t.next
	b, err := d.Append(make([]byte, 0, task.SlotLen))
	if err != nil {
		return 0, err
	}
	at := t.ring + uint64(t.producer&(1<<t.log2-1))<<log2Slot
	if _, err := t.d.card.DDR().WriteAt(b, int64(at)); err != nil {
		return 0, err
	}
	t.next = (t.next + 1) & task.MaxID
	t.producer = (t.producer + 1) & indexMask
	regs.TaskOf(t.d.card).SetSubmit(regs.TaskSubmit(0).WithProducer(t.producer).WithSubmitStart(true))
	return d.ID, t.d.card.Err()
}

// outstanding is how many tasks have an answer that was not polled.
func (t *Tasks) outstanding() uint32 { return (t.producer - t.read) & indexMask }

// Poll moves up to len(out) answers to out and returns how many.
func (t *Tasks) Poll(out []task.Answer) (n int, err error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.stopped {
		return 0, errStopped
	}
	e := regs.TaskOf(t.d.card)
	ready := (e.CompletionProducer() - t.read) & indexMask
	if err := t.d.card.Err(); err != nil {
		return 0, err
	}
	if ready > t.outstanding() {
		return 0, fmt.Errorf("card: %d answers to %d tasks: was the card reset?", ready, t.outstanding())
	}
	for ; n < len(out) && n < int(ready); n++ {
		var b [task.AnswerLen]byte
		at := t.answers + uint64(t.read&(1<<t.log2-1))<<log2Answer
		if _, err := t.d.card.DDR().ReadAt(b[:], int64(at)); err != nil {
			return n, err
		}
		if out[n], err = task.ParseAnswer(b[:]); err != nil {
			return n, err
		}
		t.read = (t.read + 1) & indexMask
	}
	if n > 0 {
		e.SetRelease(regs.TaskRelease(0).WithCompletionConsumer(t.read).WithReleaseStart(true))
	}
	return n, t.d.card.Err()
}

// Wait polls until there is an answer, and returns it.
func (t *Tasks) Wait(ctx context.Context) (task.Answer, error) {
	for {
		var one [1]task.Answer
		if n, err := t.Poll(one[:]); n == 1 || err != nil {
			return one[0], err
		}
		if err := pause(ctx); err != nil {
			return task.Answer{}, err
		}
	}
}

// Cores returns the counters of each core. Busy has tasks that have ended.
func (t *Tasks) Cores() ([]task.CoreCounters, error) {
	e := regs.TaskOf(t.d.card)
	all := make([]task.CoreCounters, min(e.Cores(), regs.TaskCoreTasksCount))
	for i := range all {
		all[i] = task.CoreCounters{Busy: time.Duration(e.CoreBusyNs(i)), Tasks: e.CoreTasks(i), Errors: e.CoreErrors(i)}
	}
	return all, t.d.card.Err()
}

// Stop cancels all tasks. When it has returned nil, the card accesses no memory for tasks.
func (t *Tasks) Stop(ctx context.Context) error {
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.stopped {
		return nil
	}
	regs.TaskOf(t.d.card).SetCommand(regs.TaskCommand(0).WithStop(true))
	if _, err := t.settled(ctx); err != nil {
		return err
	}
	t.stopped = true
	_ = t.d.remove(t, "queue of tasks", nil) // unless the device is being closed
	t.give()
	return nil
}

// give gives the memory of the rings back.
func (t *Tasks) give() {
	t.d.give(&t.d.free.memory, t.ring, task.SlotLen<<t.log2)
	t.d.give(&t.d.free.memory, t.answers, task.AnswerLen<<t.log2)
}

func (t *Tasks) order() int { return orderTasks }

// stopTime is how long Close of the device waits for the end of the tasks.
const stopTime = time.Second

func (t *Tasks) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	return t.Stop(ctx)
}
