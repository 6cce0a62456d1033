// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// rawRing is where the tests below have descriptors and answers: rings of one entry.
const (
	rawSlot   = 1 << 30
	rawAnswer = 1<<30 + 1<<12
)

// raw submits the bytes of a slot as they are, and returns those of the answer.
func (c *tasks) raw(slot []byte, number uint32) uint64 {
	c.t.Helper()
	e := regs.TaskOf(c.card)
	c.write(rawSlot, slot)
	c.write(rawAnswer, make([]byte, 8))
	e.SetSubmit(regs.TaskSubmit(0).WithProducer(number & 0xffff).WithSubmitStart(true))
	for e.CompletionProducer() != number&0xffff {
		c.must(c.ctx.Err())
		c.must(c.card.Err())
		time.Sleep(10 * time.Microsecond) // between two polls
	}
	e.SetRelease(regs.TaskRelease(0).WithCompletionConsumer(number & 0xffff).WithReleaseStart(true))
	return binary.BigEndian.Uint64(c.bytesAt(rawAnswer, 8))
}

// rawStart starts the ring for raw.
func (c *tasks) rawStart() {
	c.t.Helper()
	e := regs.TaskOf(c.card)
	e.SetRingBase(rawSlot)
	e.SetCompletionBase(rawAnswer)
	e.SetRing(0)
	e.SetDomain(regs.TaskDomain(0).WithPd(c.pd))
	e.SetCommand(regs.TaskCommand(0).WithStart(true))
	for !e.Status().Running() {
		c.must(c.ctx.Err())
		c.must(c.card.Err())
	}
}

// rawKey writes the registers of a region of block mr over the data of the tests.
func (c *tasks) rawKey(key uint32) {
	c.t.Helper()
	const element = 9
	regs.MttOf(c.card, 0).SetPage(regs.MttPage(0).WithPageAddress(1 << 29))
	e := regs.MrOf(c.card, element)
	e.SetKey(key)
	e.SetDomain(regs.MrDomain(0).WithPd(c.pd))
	e.SetPages(regs.MrPages(0).WithPageShift(21))
	e.SetVa(0)
	e.SetLength(1 << 21)
	e.SetMttFirst(0)
	e.SetFirstByte(0)
	e.SetControl(regs.MrControl(0).WithLocalWrite(true).WithValid(true))
	if !e.State().Usable() {
		c.t.Fatal("the region is not usable")
	}
}

// slotOf returns the bytes of a slot: a random task, with a bit or two that are flipped.
func slotOf(r *rand.Rand, key uint32, id uint32) []byte {
	types := []task.Type{task.Int8, task.Int16, task.Int32, task.Int64, task.Uint8, task.Uint16, task.Uint32, task.Uint64, task.Float32, task.Float64}
	operand := func(typ task.Type, shape ...uint32) task.Operand {
		o := task.Operand{VA: r.Uint64N(1 << 20), Key: key, Type: typ, Length: typ.Size()}
		if r.IntN(40) == 0 {
			o.VA = -r.Uint64N(20) - 1
		}
		copy(o.Shape[:], shape)
		for _, n := range shape {
			o.Length *= n
		}
		return o
	}
	d := task.Descriptor{Kernel: task.KernelCRC32C, ID: task.ID(id), Result: operand(task.Uint32, 1)}
	for n := []int{1, 1, 1, 1, 1, 0, 2, 6}[r.IntN(8)]; n > 0; n-- {
		shape := []uint32{1 + r.Uint32N(9), 1 + r.Uint32N(9), 1 + r.Uint32N(9)}[:1+r.IntN(3)]
		if r.IntN(20) == 0 {
			shape = []uint32{1 << 16, 1 << r.Uint32N(17), 1 + r.Uint32N(2)}
		}
		d.Operands = append(d.Operands, operand(types[r.IntN(len(types))], shape...))
	}
	if r.IntN(10) == 0 {
		d.Kernel = task.KernelID(r.Uint32())
	}
	b, _ := d.Append(make([]byte, 0, task.SlotLen))
	used := len(b)
	b = b[:task.SlotLen]
	for i := used; i < len(b); i++ {
		b[i] = byte(r.Uint32()) // behind the descriptor
	}
	for range []int{0, 0, 1, 2}[r.IntN(4)] {
		bit := r.IntN(min(used+32, task.SlotLen) * 8)
		if byte := bit / 8; byte < 4 || byte >= 8 { // the id stays
			b[byte] ^= 1 << (bit % 8)
		}
	}
	return b
}

// onlyModel reports whether the slot has a kernel that the RTL does not have.
func onlyModel(slot []byte) bool {
	k := task.KernelID(binary.BigEndian.Uint16(slot[2:]))
	return k >= task.KernelAdd && k <= task.KernelHistogram && k != task.KernelCRC32C
}

// Random descriptors, valid and not, have the same answers over model and RTL.
func TestDescriptors(t *testing.T) {
	m, s := onModel(t), onRTL(t)
	const element, all = 9, 3000
	r := rand.New(rand.NewPCG(2, 1))
	for _, c := range []*tasks{m, s} {
		c.rawStart()
		c.rawKey(element<<16 | 77)
	}
	seen := map[task.Status]int{}
	for number := uint32(0); number < all; {
		slot := slotOf(r, element<<16|77, number)
		if onlyModel(slot) {
			continue
		}
		number++
		want, got := m.raw(slot, number), s.raw(slot, number)
		if want != got {
			t.Fatalf("task %d, %x: answer %#016x, want %#016x", number, slot, got, want)
		}
		seen[task.Status(want>>48)]++
	}
	t.Logf("%v", seen)
	for _, status := range []task.Status{task.StatusOK, task.StatusDescriptor, task.StatusKernel, task.StatusOperand, task.StatusTooLarge, task.StatusAccess} {
		if seen[status] < 5 {
			t.Errorf("%d of %d tasks: %s", seen[status], all, status)
		}
	}
}

// Random registers of regions and windows, possible and not, are accepted by both or by none.
func TestRegions(t *testing.T) {
	m, s := onModel(t), onRTL(t)
	r := rand.New(rand.NewPCG(3, 1))
	accepted := 0
	const all = 3000
	for i := range all {
		element := uint32(r.IntN(4)) // the key of element 0 has another limit
		shift := []uint32{12, 12, 13, 21, 30, r.Uint32N(64)}[r.IntN(6)]
		size := uint64(1) << min(shift, 34)
		first := []uint32{0, 8, r.Uint32N(8), uint32(size - 1), uint32(size), r.Uint32()}[r.IntN(6)]
		length := []uint64{1, size, size - uint64(first), size*3 - uint64(first) + uint64(r.IntN(2)), 0, 1 << 34, 1<<34 + 1, r.Uint64()}[r.IntN(8)]
		if length>>min(shift, 34) > 1<<10 && length <= 1<<34 { // many pages, which are all 0
			shift, length = 21, min(length, 1<<34)
		}
		va := []uint64{0, uint64(first), -length, -length + 1, r.Uint64()}[r.IntN(5)]
		mtt := []uint32{0, 1, regs.MttCount - 3, regs.MttCount - 1, regs.MttCount, r.Uint32()}[r.IntN(6)]
		key := element<<16 | []uint32{r.Uint32() & 0xffff, 1, 0xff, 0x100}[r.IntN(4)]
		if r.IntN(20) == 0 {
			key ^= 1 << r.IntN(32)
		}
		control := regs.MrControl(r.Uint32()&^0x3ff) | regs.MrControl(r.Uint32()&0xfe)
		if r.IntN(6) == 0 {
			control = control.WithKind([]uint32{2, 3}[r.IntN(2)])
		} else {
			control = control.WithKind(0)
		}
		var pages [4]uint64
		for i := range pages {
			pages[i] = r.Uint64N(1<<34>>min(shift, 30)) << min(shift, 30)
			if r.IntN(30) == 0 {
				pages[i] ^= 1 << r.IntN(34)
			}
		}
		var state [2]regs.MrState
		for j, c := range []*tasks{m, s} {
			for k, p := range pages {
				if at := uint64(mtt) + uint64(k); at < regs.MttCount {
					regs.MttOf(c.card, int(at)).SetPage(regs.MttPage(0).WithPageAddress(p))
				}
			}
			e := regs.MrOf(c.card, int(element))
			e.SetKey(key)
			e.SetDomain(regs.MrDomain(0).WithPd(c.pd))
			e.SetPages(regs.MrPages(0).WithPageShift(shift & 63))
			e.SetVa(va)
			e.SetLength(length)
			e.SetMttFirst(mtt)
			e.SetFirstByte(first)
			e.SetControl(control.WithValid(true))
			state[j] = e.State()
			e.SetControl(0)
			if after := e.State(); after != 0 {
				t.Fatalf("state %#x without valid", uint32(after))
			}
			for k := range pages {
				if at := uint64(mtt) + uint64(k); at < regs.MttCount {
					regs.MttOf(c.card, int(at)).SetPage(0)
				}
			}
			c.must(c.card.Err())
		}
		if state[0] != state[1] {
			t.Fatalf("region %d: element %d, key %#x, control %#x, shift %d, va %#x, length %#x, mtt %#x, first byte %#x, pages %#x: state %#x, want %#x",
				i, element, key, uint32(control), shift, va, length, mtt, first, pages, uint32(state[1]), uint32(state[0]))
		}
		accepted += bits.OnesCount32(uint32(state[0]) & 1)
	}
	if accepted < all/20 || accepted > all*19/20 {
		t.Errorf("%d of %d regions are accepted", accepted, all)
	}
}

// All cores of the RTL work at the same time: each has taken a task before one can end (S1.1).
func TestTasksTogether(t *testing.T) {
	c := onRTL(t)
	c.start(8)
	mr := c.region(c.pd, verbs.AccessLocalWrite)
	c.rtl.Stall(true)
	for i := range regs.TaskCoresReset + 1 {
		c.submit(crcOf(mr, i, 1000, 2000+4*i))
	}
	c.rtl.Step(2000)
	e := regs.TaskOf(c.card)
	if e.Consumer() != regs.TaskCoresReset || e.CompletionProducer() != 0 {
		t.Errorf("%d tasks are taken and %d have ended, want %d and 0", e.Consumer(), e.CompletionProducer(), regs.TaskCoresReset)
	}
	c.rtl.Stall(false)
	for range regs.TaskCoresReset + 1 {
		if a, err := c.ring.Wait(c.ctx); err != nil || a.Status != task.StatusOK {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	cores, err := c.ring.Cores()
	c.must(err)
	for i, core := range cores {
		if core.Tasks == 0 || core.Busy <= 0 {
			t.Errorf("core %d: %+v", i, core)
		}
	}
}

// A region that ends while a task reads it is not read any more: the task fails (S2.6).
func TestTaskLosesRegion(t *testing.T) {
	for _, clocks := range []uint64{1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007} {
		c := onRTL(t)
		c.start(4)
		mr, readable := c.region(c.pd, verbs.AccessLocalWrite), c.region(c.pd, 0)
		before := noise(rand.New(rand.NewPCG(4, clocks)), dataBytes)
		c.write(dataBase, before)
		c.rtl.Stall(true)
		d := crcOf(readable, 0, 100000, 0)
		d.Result = crcOf(mr, 0, 8, dataBytes-4).Result
		c.submit(d)
		c.rtl.Step(clocks)
		c.must(readable.Deregister())
		c.rtl.Stall(false)
		if a, err := c.ring.Wait(c.ctx); err != nil || a.Status != task.StatusAccess {
			t.Errorf("a task whose operand ends: %+v, %v", a, err)
		}
		if n, failed, _ := c.counters(); n != 1 || failed != 1 {
			t.Errorf("%d tasks, %d failed", n, failed)
		}
		if got := c.bytesAt(dataBase+dataBytes-4, 4); string(got) != string(before[dataBytes-4:]) {
			t.Errorf("the result is written: %x", got)
		}
		if s := c.run(crcOf(mr, 0, 5000, 6000)); s != task.StatusOK { // the core is free again
			t.Error(s)
		}
	}
}

// Stop ends tasks that cannot go on, and the next start has cores and indexes as the first.
func TestStopWhileStalled(t *testing.T) {
	c := onRTL(t)
	c.start(8)
	mr := c.region(c.pd, verbs.AccessLocalWrite)
	c.write(dataBase, make([]byte, dataBytes))
	c.rtl.Stall(true)
	for i := range 8 {
		c.submit(crcOf(mr, 0, 100000, 110000+4*i))
	}
	c.rtl.Step(3000)
	c.must(c.ring.Stop(c.ctx))
	c.rtl.Stall(false)
	c.rtl.Step(300000)
	for _, b := range c.bytesAt(dataBase+110000, 32) {
		if b != 0 {
			t.Fatal("a task that was stopped has a result")
		}
	}
	c.start(2)
	for range 5 {
		if s := c.run(crcOf(mr, 3, 5000, 6000)); s != task.StatusOK {
			t.Error(s)
		}
	}
}
