// SPDX-License-Identifier: Apache-2.0

package rtl_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/rtl"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// tasks is a card with cores: the model or the RTL, and the driver on it.
type tasks struct {
	t    testing.TB
	ctx  context.Context
	card *hwoffload.Card
	d    *driver.Device
	rtl  *rtl.Card // nil: the model
	pd   *driver.PD
	ring *driver.Tasks
}

// overBoth runs a test over the model, and over the RTL.
func overBoth(t *testing.T, test func(t *testing.T, c *tasks)) {
	t.Run("model", func(t *testing.T) { test(t, onModel(t)) })
	t.Run("rtl", func(t *testing.T) { test(t, onRTL(t)) })
}

func onModel(t testing.TB) *tasks {
	t.Helper()
	began := time.Now()
	m := card.NewAt(func() uint64 { return uint64(time.Since(began)) })
	unit, err := m.StartTasks()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unit.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return newTasks(t, m)
}

func onRTL(t testing.TB) *tasks {
	t.Helper()
	s := start(t)
	s.SetClock(1, true)
	c := newTasks(t, s)
	c.rtl = s
	return c
}

func newTasks(t testing.TB, d hwoffload.Device) *tasks {
	t.Helper()
	ctx := testkit.Context(t)
	c := &tasks{t: t, ctx: ctx}
	var err error
	c.card, err = hwoffload.Open(d)
	c.must(err)
	c.d, err = driver.New(c.card, driver.Config{RingBytes: 1 << 22})
	c.must(err)
	c.domain() // of another process
	c.pd = c.domain()
	return c
}

// domain makes a protection domain.
func (c *tasks) domain() *driver.PD {
	c.t.Helper()
	pd, err := c.d.AllocPD()
	c.must(err)
	return pd.(*driver.PD)
}

func (c *tasks) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *tasks) start(entries int) {
	c.t.Helper()
	var err error
	c.ring, err = c.d.StartTasks(c.ctx, c.pd.Number(), entries)
	c.must(err)
}

// Data of the tests: a window of the DDR ends in it.
const (
	dataBase  = 5<<28 - 1<<16
	dataBytes = 1 << 17
	dataVA    = 0x7f0000000123
)

// region registers the data of the tests.
func (c *tasks) region(pd uint32, access verbs.Access) *driver.MR {
	c.t.Helper()
	mr, err := c.d.RegMR(driver.Spec{PD: pd, Access: access, Addr: dataBase, Len: dataBytes, VA: dataVA})
	c.must(err)
	return mr
}

// crcOf is a task over n bytes at off of a region, with the result at to.
func crcOf(mr *driver.MR, off, n, to int) task.Descriptor {
	return task.Descriptor{
		Kernel:   task.KernelCRC32C,
		Operands: []task.Operand{{VA: mr.VA() + uint64(off), Length: uint32(n), Key: mr.LKey(), Type: task.Uint8, Shape: task.Shape{uint32(n)}}},
		Result:   task.Operand{VA: mr.VA() + uint64(to), Length: 4, Key: mr.LKey(), Type: task.Uint32, Shape: task.Shape{1}},
	}
}

func (c *tasks) submit(d task.Descriptor) task.ID {
	c.t.Helper()
	id, err := c.ring.Submit(d)
	c.must(err)
	return id
}

// run submits a task and waits for its answer.
func (c *tasks) run(d task.Descriptor) task.Status {
	c.t.Helper()
	id := c.submit(d)
	a, err := c.ring.Wait(c.ctx)
	c.must(err)
	if a.ID != id {
		c.t.Fatalf("answer to task %d, want %d", a.ID, id)
	}
	return a.Status
}

// bytesAt reads the DDR.
func (c *tasks) bytesAt(addr uint64, n int) []byte {
	c.t.Helper()
	b := make([]byte, n)
	_, err := c.card.DDR().ReadAt(b, int64(addr))
	c.must(err)
	return b
}

func (c *tasks) write(addr uint64, b []byte) {
	c.t.Helper()
	_, err := c.card.DDR().WriteAt(b, int64(addr))
	c.must(err)
}

// counters are the sums of those of all cores.
func (c *tasks) counters() (n, failed uint64, busy time.Duration) {
	c.t.Helper()
	cores, err := c.ring.Cores()
	c.must(err)
	if len(cores) != regs.TaskCoresReset {
		c.t.Errorf("%d cores", len(cores))
	}
	for _, core := range cores {
		n, failed, busy = n+core.Tasks, failed+core.Errors, busy+core.Busy
	}
	return n, failed, busy
}

func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// scattered registers n pages that do not follow each other, and fills them. It returns the bytes of
// the region, and where each of them is.
func (c *tasks) scattered(r *rand.Rand, n int) (mr *driver.MR, data []byte, at func(off int) uint64) {
	c.t.Helper()
	const first, size = 0xffb, 1 << 12
	var pages []uint64
	for i := range uint64(n) {
		pages = append(pages, 3<<28+(i*7%uint64(n))*3*size)
	}
	at = func(off int) uint64 { return pages[(first+off)/size] + uint64((first+off)%size) }
	data = noise(r, n*size-first)
	for off := 0; off < len(data); {
		piece := min(size-(first+off)%size, len(data)-off)
		c.write(at(off), data[off:off+piece])
		off += piece
	}
	mr, err := c.d.RegMR(driver.Spec{PD: c.pd.Number(), Access: verbs.AccessLocalWrite, Pages: pages, PageShift: 12, First: first, Len: uint64(len(data)), VA: 0xfffffffffff00000})
	c.must(err)
	return mr, data, at
}

// Tasks over scattered pages, with operands and results of any alignment, give the sums of hash/crc32,
// and change no other byte.
func TestTasks(t *testing.T) {
	overBoth(t, func(t *testing.T, c *tasks) {
		c.start(8)
		r := rand.New(rand.NewPCG(1, 1))
		mr, data, at := c.scattered(r, 20)
		const results = 20<<12 - 0xffb - 9000 // here and behind, which no task reads
		type sum struct {
			to  int
			crc uint32
		}
		want, waiting := append([]byte{}, data...), map[task.ID]sum{}
		poll := func() {
			a, err := c.ring.Wait(c.ctx)
			c.must(err)
			s, ok := waiting[a.ID]
			if !ok || a.Status != task.StatusOK {
				t.Fatalf("answer %+v; it waits: %v", a, ok)
			}
			delete(waiting, a.ID)
			binary.LittleEndian.PutUint32(want[s.to:], s.crc)
		}
		const all = 300
		for i := range all {
			if len(waiting) == 8 {
				poll()
			}
			off := r.IntN(results)
			n := 1 + r.IntN(min(results-off, []int{8, 100, 5000, 30000}[r.IntN(4)]))
			to := results + i*7 + r.IntN(3)
			if i%50 == 0 {
				to = 20<<12 - 0xffb - 4096 - 1 - i/50 // in two pages
			}
			d := crcOf(mr, off, n, to)
			waiting[c.submit(d)] = sum{to, crc32.Checksum(data[off:off+n], castagnoli)}
		}
		for len(waiting) > 0 {
			poll()
		}
		for off := range want {
			if off < results-100 && off%37 != 0 { // not each byte of the operands
				continue
			}
			if got := c.bytesAt(at(off), 1)[0]; got != want[off] {
				t.Fatalf("byte %d is %#x, want %#x", off, got, want[off])
			}
		}
		if n, failed, busy := c.counters(); n != all || failed != 0 || busy <= 0 {
			t.Errorf("%d tasks, %d failed, busy for %v", n, failed, busy)
		}
	})
}

// Tasks that are wrong have the same status over both, and change no byte of the card's memory.
func TestTasksRefused(t *testing.T) {
	overBoth(t, func(t *testing.T, c *tasks) {
		c.start(4)
		before := bytes.Repeat([]byte{3}, dataBytes)
		c.write(dataBase, before)
		mr := c.region(c.pd.Number(), verbs.AccessLocalWrite)
		readOnly, other := c.region(c.pd.Number(), 0), c.region(c.domain().Number(), verbs.AccessLocalWrite)
		window, err := c.pd.AllocMW()
		c.must(err)
		gone := c.region(c.pd.Number(), verbs.AccessLocalWrite)
		c.must(gone.Deregister())
		for what, x := range map[string]struct {
			status task.Status
			change func(d *task.Descriptor)
		}{
			"descriptor":   {task.StatusDescriptor, func(d *task.Descriptor) { d.Result.Length++ }},
			"kernel":       {task.StatusKernel, func(d *task.Descriptor) { d.Kernel = 99 }},
			"no operands":  {task.StatusOperand, func(d *task.Descriptor) { d.Operands = d.Operands[:0] }},
			"two operands": {task.StatusOperand, func(d *task.Descriptor) { d.Operands = append(d.Operands, d.Operands[0]) }},
			"seven operands": {task.StatusOperand, func(d *task.Descriptor) {
				d.Operands = append(d.Operands, d.Operands[0], d.Operands[0], d.Operands[0], d.Operands[0], d.Operands[0])
			}},
			"result of int32": {task.StatusOperand, func(d *task.Descriptor) { d.Result.Type = task.Int32 }},
			"too large":       {task.StatusTooLarge, func(d *task.Descriptor) { d.Operands[0].Length, d.Operands[0].Shape = 64<<20, task.Shape{64 << 20} }},
			"key":             {task.StatusAccess, func(d *task.Descriptor) { d.Operands[0].Key ^= 1 }},
			"no such region":  {task.StatusAccess, func(d *task.Descriptor) { d.Operands[0].Key += 1 << 20 }},
			"operand outside": {task.StatusAccess, func(d *task.Descriptor) { d.Operands[0].VA = dataVA + dataBytes - 7 }},
			"operand before":  {task.StatusAccess, func(d *task.Descriptor) { d.Operands[0].VA = dataVA - 1 }},
			"result outside":  {task.StatusAccess, func(d *task.Descriptor) { d.Result.VA = dataVA + dataBytes - 3 }},
			"not writable":    {task.StatusAccess, func(d *task.Descriptor) { d.Result.Key = readOnly.LKey() }},
			"domain":          {task.StatusAccess, func(d *task.Descriptor) { d.Result.Key = other.LKey() }},
			"a window":        {task.StatusAccess, func(d *task.Descriptor) { d.Operands[0].Key = window.RKey() }},
			"deregistered":    {task.StatusAccess, func(d *task.Descriptor) { d.Operands[0].Key = gone.LKey() }},
			"peer's operand":  {task.StatusAccess, func(d *task.Descriptor) { d.Operands[0].Origin = true }},
			"peer's result":   {task.StatusAccess, func(d *task.Descriptor) { d.Result.Origin = true }},
		} {
			d := crcOf(mr, 0, 8, 64)
			x.change(&d)
			if s := c.run(d); s != x.status {
				t.Errorf("%s: %s, want %s", what, s, x.status)
			}
		}
		if !bytes.Equal(c.bytesAt(dataBase, dataBytes), before) {
			t.Error("memory has changed")
		}
		if n, _, _ := c.counters(); n != 0 {
			t.Errorf("cores executed %d of the wrong tasks", n)
		}
		ok := crcOf(readOnly, 0, 8, 0)
		ok.Result = crcOf(mr, 0, 8, 64).Result
		if s := c.run(ok); s != task.StatusOK { // to read needs no right
			t.Error(s)
		}
	})
}

// Doorbells that contradict the ring have no effect.
func TestTaskDoorbells(t *testing.T) {
	overBoth(t, func(t *testing.T, c *tasks) {
		c.start(4)
		mr := c.region(c.pd.Number(), verbs.AccessLocalWrite)
		e := regs.TaskOf(c.card)
		submit := func(v uint32, start bool) {
			e.SetSubmit(regs.TaskSubmit(0).WithProducer(v).WithSubmitStart(start))
		}
		for _, v := range []uint32{5, 0xffff, 0x8000} { // beyond the ring
			submit(v, true)
		}
		submit(3, false)
		e.SetRelease(regs.TaskRelease(0).WithCompletionConsumer(3).WithReleaseStart(true)) // of no answer
		submit(7, true)
		// Had one of them an effect, then the indexes would not be those of ten tasks.
		for range 10 {
			if s := c.run(crcOf(mr, 0, 9, 64)); s != task.StatusOK {
				t.Fatal(s)
			}
		}
		// While an answer is not released, a producer behind consumer would have old descriptors executed.
		_, err := c.ring.Submit(crcOf(mr, 0, 9, 64))
		c.must(err)
		for e.CompletionProducer() != 11 {
			c.must(c.ctx.Err())
			c.must(c.card.Err())
		}
		submit(10, true)
		_, err = c.ring.Wait(c.ctx)
		c.must(err)
		if s := c.run(crcOf(mr, 0, 9, 64)); s != task.StatusOK {
			t.Fatal(s)
		}
		if e.Consumer() != 12 || e.CompletionProducer() != 12 {
			t.Errorf("indexes %d and %d", e.Consumer(), e.CompletionProducer())
		}
	})
}

// Stop ends the tasks, and the block starts again with another size. Settings that are not possible
// are refused.
func TestTasksStop(t *testing.T) {
	overBoth(t, func(t *testing.T, c *tasks) {
		c.start(4)
		if _, err := c.d.StartTasks(c.ctx, c.pd.Number(), 4); !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("a second start: %v", err)
		}
		c.must(c.ring.Stop(c.ctx))
		e := regs.TaskOf(c.card)
		for what, set := range map[string]func(){
			"not aligned": func() { e.SetRingBase(128) }, "answers not aligned": func() { e.SetCompletionBase(4) },
			"too large": func() { e.SetRing(10) }, "outside": func() { e.SetRingBase(1<<34 - 256) }, "answers outside": func() { e.SetCompletionBase(1 << 34) },
			"far outside": func() { e.SetRingBase(1<<64 - 256) },
		} {
			e.SetRingBase(0)
			e.SetCompletionBase(0)
			e.SetRing(2)
			set()
			e.SetCommand(regs.TaskCommand(0).WithStart(true))
			for e.Status().Pending() {
				c.must(c.ctx.Err())
			}
			if s := e.Status(); s.Running() || !s.Refused() {
				t.Errorf("%s: status %#x", what, uint32(s))
			}
		}
		c.start(1)
		mr := c.region(c.pd.Number(), verbs.AccessLocalWrite)
		for range 3 {
			if s := c.run(crcOf(mr, 0, 9, 64)); s != task.StatusOK {
				t.Error(s)
			}
		}
	})
}
