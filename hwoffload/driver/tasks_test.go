// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// tasks is a card with cores, and a region of its memory.
type tasks struct {
	*side
	t    *testing.T
	ctx  context.Context
	pd   uint32
	mr   *driver.MR
	ring *driver.Tasks
}

// Region of tasks: a window of the DDR ends in it.
const (
	taskBytes = 1 << 17
	taskVA    = 0x10000000
)

func newTasks(t *testing.T, entries int) *tasks {
	t.Helper()
	ctx := testkit.Context(t)
	c := &tasks{side: newWorld(t, 1).side[0], t: t, ctx: ctx}
	unit, err := c.m.StartTasks()
	c.must(err)
	t.Cleanup(func() { c.must(unit.Close(context.Background())) })
	c.newPD() // of another process
	c.pd = c.newPD().Number()
	c.mr = c.register(driver.Spec{PD: c.pd, Access: verbs.AccessLocalWrite, Addr: dataBase, Len: taskBytes, VA: taskVA})
	c.ring, err = c.d.StartTasks(ctx, c.pd, entries)
	c.must(err)
	return c
}

func (c *tasks) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *tasks) register(s driver.Spec) *driver.MR {
	c.t.Helper()
	mr, err := c.d.RegMR(s)
	c.must(err)
	return mr
}

func (c *tasks) operand(off, n int, typ task.Type, s ...uint32) task.Operand {
	o := task.Operand{VA: taskVA + uint64(off), Length: uint32(n), Key: c.mr.LKey(), Type: typ}
	copy(o.Shape[:], s)
	return o
}

func (c *tasks) write(off int, b []byte) {
	c.t.Helper()
	_, err := c.card.DDR().WriteAt(b, dataBase+int64(off))
	c.must(err)
}

func (c *tasks) read(off, n int) []byte {
	c.t.Helper()
	b := make([]byte, n)
	_, err := c.card.DDR().ReadAt(b, dataBase+int64(off))
	c.must(err)
	return b
}

// run submits a task and waits for its answer.
func (c *tasks) run(d task.Descriptor) task.Status {
	c.t.Helper()
	id, err := c.ring.Submit(d)
	c.must(err)
	a, err := c.ring.Wait(c.ctx)
	c.must(err)
	if a.ID != id {
		c.t.Fatalf("answer to task %d, want %d", a.ID, id)
	}
	return a.Status
}

// total is the number of tasks and of failed tasks on all cores.
func (c *tasks) total() (n, failed uint64, busy time.Duration) {
	c.t.Helper()
	cores, err := c.ring.Cores()
	c.must(err)
	if len(cores) != 4 {
		c.t.Errorf("%d cores", len(cores))
	}
	for _, core := range cores {
		n, failed, busy = n+core.Tasks, failed+core.Errors, busy+core.Busy
	}
	return n, failed, busy
}

// A task computes on card memory, across the end of a window.
func TestCardTask(t *testing.T) {
	c := newTasks(t, 4)
	data := make([]byte, 100000)
	for i := range data {
		data[i] = byte(i * i >> 3)
	}
	c.write(0, data)
	d := task.Descriptor{
		Kernel: task.KernelCRC32C, Operands: []task.Operand{c.operand(0, len(data), task.Uint8, 100000)}, Result: c.operand(100004, 4, task.Uint32, 1),
	}
	if s := c.run(d); s != task.StatusOK {
		t.Fatal(s)
	}
	want := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	if got := binary.LittleEndian.Uint32(c.read(100004, 4)); got != want {
		t.Errorf("CRC %#x, want %#x", got, want)
	}
	if n, failed, busy := c.total(); n != 1 || failed != 0 || busy <= 0 {
		t.Errorf("%d tasks, %d failed, busy for %v", n, failed, busy)
	}
}

// Tasks that are wrong change no byte of the card's memory.
func TestCardTaskRefused(t *testing.T) {
	c := newTasks(t, 4)
	before := bytes.Repeat([]byte{3}, taskBytes)
	c.write(0, before)
	readOnly := c.register(driver.Spec{PD: c.pd, Addr: dataBase, Len: taskBytes, VA: taskVA})
	other := c.register(driver.Spec{PD: c.newPD().Number(), Access: verbs.AccessLocalWrite, Addr: dataBase, Len: taskBytes, VA: taskVA})
	for what, x := range map[string]struct {
		status task.Status
		change func(d *task.Descriptor)
	}{
		"descriptor":      {task.StatusDescriptor, func(d *task.Descriptor) { d.Result.Length++ }},
		"kernel":          {task.StatusKernel, func(d *task.Descriptor) { d.Kernel = 99 }},
		"operands":        {task.StatusOperand, func(d *task.Descriptor) { d.Operands = d.Operands[:0] }},
		"key":             {task.StatusAccess, func(d *task.Descriptor) { d.Operands[0].Key ^= 1 }},
		"no such region":  {task.StatusAccess, func(d *task.Descriptor) { d.Operands[0].Key += 1 << 20 }},
		"operand outside": {task.StatusAccess, func(d *task.Descriptor) { d.Operands[0].VA = taskVA + taskBytes - 7 }},
		"result outside":  {task.StatusAccess, func(d *task.Descriptor) { d.Result.VA = taskVA + taskBytes - 7 }},
		"not writable":    {task.StatusAccess, func(d *task.Descriptor) { d.Result.Key = readOnly.LKey() }},
		"domain":          {task.StatusAccess, func(d *task.Descriptor) { d.Result.Key = other.LKey() }},
		"peer":            {task.StatusAccess, func(d *task.Descriptor) { d.Operands[0].Origin = true }},
	} {
		d := task.Descriptor{Kernel: task.KernelSum, Operands: []task.Operand{c.operand(0, 8, task.Int64, 1)}, Result: c.operand(64, 8, task.Int64, 1)}
		x.change(&d)
		if s := c.run(d); s != x.status {
			t.Errorf("%s: %s, want %s", what, s, x.status)
		}
	}
	if !bytes.Equal(c.read(0, taskBytes), before) {
		t.Error("memory has changed")
	}
	if n, _, _ := c.total(); n != 0 {
		t.Errorf("cores executed %d of the wrong tasks", n)
	}
}

// The ring and its indexes wrap, and a full ring is reported.
func TestCardTaskRing(t *testing.T) {
	c := newTasks(t, 5) // 8
	d := task.Descriptor{Kernel: task.KernelMax, Operands: []task.Operand{c.operand(0, 1, task.Uint8, 1)}, Result: c.operand(8, 1, task.Uint8, 1)}
	for range 8 {
		_, err := c.ring.Submit(d)
		c.must(err)
	}
	if _, err := c.ring.Submit(d); !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("a ninth task: %v", err)
	}
	seen := map[task.ID]bool{}
	sent := 8
	const all = 1<<16 + 20
	for len(seen) < all {
		a, err := c.ring.Wait(c.ctx)
		c.must(err)
		if seen[a.ID] || a.Status != task.StatusOK {
			t.Fatalf("%+v, seen before: %v", a, seen[a.ID])
		}
		seen[a.ID] = true
		if sent < all {
			_, err = c.ring.Submit(d)
			c.must(err)
			sent++
		}
	}
	if n, failed, _ := c.total(); n != all || failed != 0 {
		t.Errorf("%d tasks, %d failed", n, failed)
	}
}

// Doorbells that contradict the ring have no effect.
func TestCardTaskDoorbells(t *testing.T) {
	c := newTasks(t, 4)
	e := regs.TaskOf(c.card)
	indexes := func(what string, want uint32) {
		t.Helper()
		if e.Consumer() != want || e.CompletionProducer() != want {
			t.Fatalf("%s: indexes %d and %d, want %d", what, e.Consumer(), e.CompletionProducer(), want)
		}
	}
	taken := uint32(0)
	nothing := func(what string) {
		t.Helper()
		for range 20 {
			time.Sleep(time.Millisecond) // for the cores
			indexes(what, taken)
		}
	}
	for _, v := range []uint32{5, 0xffff, 0x8000} {
		e.SetSubmit(regs.TaskSubmit(0).WithProducer(v).WithSubmitStart(true))
		nothing("producer beyond the ring")
	}
	e.SetSubmit(regs.TaskSubmit(0).WithProducer(3))
	nothing("without start")
	e.SetRelease(regs.TaskRelease(0).WithCompletionConsumer(3).WithReleaseStart(true))
	e.SetSubmit(regs.TaskSubmit(0).WithProducer(7).WithSubmitStart(true))
	nothing("release of answers that were not written")
	d := task.Descriptor{Kernel: task.KernelMax, Operands: []task.Operand{c.operand(0, 1, task.Uint8, 1)}, Result: c.operand(8, 1, task.Uint8, 1)}
	for range 10 {
		if s := c.run(d); s != task.StatusOK {
			t.Fatal(s)
		}
	}
	indexes("ten tasks", 10)
	// While an answer is not released, a producer behind consumer would have old descriptors executed.
	id, err := c.ring.Submit(d)
	c.must(err)
	for e.CompletionProducer() != 11 {
		c.must(c.ctx.Err())
	}
	e.SetSubmit(regs.TaskSubmit(0).WithProducer(10).WithSubmitStart(true))
	taken = 11
	nothing("producer behind consumer")
	if a, err := c.ring.Wait(c.ctx); err != nil || a.ID != id {
		t.Fatalf("%+v, %v", a, err)
	}
	if s := c.run(d); s != task.StatusOK {
		t.Fatal(s)
	}
	indexes("twelve tasks", 12)
}

// Stop ends the tasks, and the block starts again with another size. Settings that are not
// possible are refused.
func TestCardTaskStop(t *testing.T) {
	c := newTasks(t, 4)
	if _, err := c.d.StartTasks(c.ctx, c.pd, 4); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("a second start: %v", err)
	}
	c.must(c.ring.Stop(c.ctx))
	c.must(c.ring.Stop(c.ctx))
	if _, err := c.ring.Submit(task.Descriptor{}); !errors.Is(err, verbs.ErrDestroyed) {
		t.Errorf("submit: %v", err)
	}
	e := regs.TaskOf(c.card)
	settled := func() regs.TaskStatus {
		for e.Status().Pending() {
			c.must(c.ctx.Err())
		}
		return e.Status()
	}
	for what, set := range map[string]func(){
		"not aligned": func() { e.SetRingBase(128) }, "answers not aligned": func() { e.SetCompletionBase(4) },
		"too large": func() { e.SetRing(10) }, "outside": func() { e.SetRingBase(1<<34 - 256) }, "answers outside": func() { e.SetCompletionBase(1 << 34) },
	} {
		e.SetRingBase(0)
		e.SetCompletionBase(0)
		e.SetRing(2)
		set()
		e.SetCommand(regs.TaskCommand(0).WithStart(true))
		if s := settled(); s.Running() || !s.Refused() {
			t.Errorf("%s: status %#x", what, uint32(s))
		}
	}
	var err error
	c.ring, err = c.d.StartTasks(c.ctx, c.pd, 1)
	c.must(err)
	d := task.Descriptor{Kernel: task.KernelMax, Operands: []task.Operand{c.operand(0, 1, task.Uint8, 1)}, Result: c.operand(8, 1, task.Uint8, 1)}
	for range 3 {
		if s := c.run(d); s != task.StatusOK {
			t.Error(s)
		}
	}
	for _, n := range []int{0, 513} {
		if _, err := c.d.StartTasks(c.ctx, c.pd, n); err == nil {
			t.Errorf("%d entries", n)
		}
	}
}

// The driver refuses what a card has no block for, before it writes a register.
func TestCapabilities(t *testing.T) {
	w := newWorld(t, 1)
	a, _ := w.connect(verbs.RC, 0, rocev2.PMTU1024)
	for caps, calls := range map[uint32]map[string]func() error{
		7: {
			"CreateCQ": func() error { _, err := a.d.CreateCQ(4); return err },
			"NewGroup": func() error { _, err := a.d.NewGroup(driver.Destination{QP: a.qp}); return err },
		},
		31: { // that of a model without cores
			"StartTasks": func() error { _, err := a.d.StartTasks(context.Background(), 1, 4); return err },
			"ServeTasks": func() error { _, err := a.d.ServeTasks(a.qp, 4, 1<<20); return err },
		},
	} {
		a.m.Put(regs.IdentBase+regs.IdentCapabilitiesOffset, caps)
		for name, call := range calls {
			if err := call(); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s with capabilities %d: %v", name, caps, err)
			}
		}
	}
}

// Close of a device stops its tasks before it frees their memory: the next device of the card starts tasks.
func TestCardTasksEndWithDevice(t *testing.T) {
	c := newTasks(t, 8)
	_, err := c.ring.Submit(task.Descriptor{Kernel: task.KernelMax, Operands: []task.Operand{c.operand(0, 1, task.Uint8, 1)}, Result: c.operand(8, 1, task.Uint8, 1)})
	c.must(err)
	c.must(c.d.Close())
	if regs.TaskOf(c.card).Status().Running() {
		t.Error("the compute block runs without a device")
	}
	c.d, err = driver.New(c.card, driver.Config{RingBytes: ringBytes})
	c.must(err)
	defer func() { c.must(c.d.Close()) }()
	_, err = c.d.StartTasks(c.ctx, c.newPD().Number(), 8)
	c.must(err)
}
