// SPDX-License-Identifier: Apache-2.0

package rtl_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/task"
)

// rawRing is where the tests below have descriptors and answers: rings of one entry.
const (
	rawSlot   = 1 << 30
	rawAnswer = 1<<30 + 1<<12

	rawElement = 9 // of block mr, over the data of the tasks
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
	e.SetDomain(regs.TaskDomain(0).WithPd(c.pd.Number()))
	e.SetCommand(regs.TaskCommand(0).WithStart(true))
	for !e.Status().Running() {
		c.must(c.ctx.Err())
		c.must(c.card.Err())
	}
}

// rawKey writes the registers of a region of block mr over the data of the tests.
func (c *tasks) rawKey(key uint32) {
	c.t.Helper()
	regs.MttOf(c.card, 0).SetPage(regs.MttPage(0).WithPageAddress(1 << 29))
	e := regs.MrOf(c.card, rawElement)
	e.SetKey(key)
	e.SetDomain(regs.MrDomain(0).WithPd(c.pd.Number()))
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
	const all = 3000
	seen := map[task.Status]int{}
	if text := compareDescriptors(onModel(t), onRTL(t), all, seen); text != "" {
		t.Fatal(text)
	}
	for _, status := range []task.Status{task.StatusOK, task.StatusDescriptor, task.StatusKernel, task.StatusOperand, task.StatusTooLarge, task.StatusAccess} {
		if seen[status] < 5 {
			t.Errorf("%d of %d tasks: %s", seen[status], all, status)
		}
	}
}

// compareDescriptors submits the same slots to both, and returns the first difference. It counts the
// statuses.
func compareDescriptors(m, s *tasks, all uint32, seen map[task.Status]int) string {
	r := rand.New(rand.NewPCG(2, 1))
	for _, c := range []*tasks{m, s} {
		c.rawStart()
		c.rawKey(rawElement<<16 | 77)
	}
	for number := uint32(0); number < all; {
		slot := slotOf(r, rawElement<<16|77, number)
		if onlyModel(slot) {
			continue
		}
		number++
		want, got := m.raw(slot, number), s.raw(slot, number)
		if want != got {
			return fmt.Sprintf("task %d, %x: answer %#016x, want %#016x", number, slot, got, want)
		}
		seen[task.Status(want>>48)]++
	}
	return ""
}

// Random registers of regions and windows, possible and not, are accepted by both or by none.
func TestRegions(t *testing.T) {
	const all = 3000
	accepted, text := compareRegions(onModel(t), onRTL(t), all)
	if text != "" {
		t.Fatal(text)
	}
	if accepted < all/20 || accepted > all*19/20 {
		t.Errorf("%d of %d regions are accepted", accepted, all)
	}
}

// element is what a test writes to an element of block mr, and to block mtt.
type element struct {
	number, key, shift, mtt, first uint32
	control                        regs.MrControl
	va, length                     uint64
	pages                          [4]uint64
}

// randomElement returns registers at the limits of what is possible.
func randomElement(r *rand.Rand) element {
	e := element{number: uint32(r.IntN(4)), shift: pick(r, 12, 12, 13, 21, 30, r.Uint32N(64))} // the key of element 0 has another limit
	size := uint64(1) << min(e.shift, 34)
	e.first = pick(r, 0, 8, r.Uint32N(8), uint32(size-1), uint32(size), r.Uint32())
	e.length = pick(r, 1, size, size-uint64(e.first), size*3-uint64(e.first)+r.Uint64N(2), 0, 1<<34, 1<<34+1, r.Uint64())
	if e.length>>min(e.shift, 34) > 1<<10 && e.length <= 1<<34 { // fewer pages, which are all 0
		e.shift = 21
	}
	e.va = pick(r, 0, uint64(e.first), -e.length, -e.length+1, r.Uint64())
	e.mtt = pick(r, 0, 1, regs.MttCount-3, regs.MttCount-1, regs.MttCount, r.Uint32())
	e.key = e.number<<16 | pick(r, r.Uint32()&0xffff, 1, 0xff, 0x100)
	if r.IntN(20) == 0 {
		e.key ^= 1 << r.IntN(32)
	}
	e.control = regs.MrControl(r.Uint32()&^0x3ff | r.Uint32()&0xfe)
	if r.IntN(6) == 0 {
		e.control = e.control.WithKind(pick[uint32](r, 2, 3))
	}
	for i := range e.pages {
		e.pages[i] = r.Uint64N(1<<34>>min(e.shift, 30)) << min(e.shift, 30)
		if r.IntN(30) == 0 {
			e.pages[i] ^= 1 << r.IntN(34)
		}
	}
	return e
}

// accept writes the registers, and returns the state that the card gives them. It then clears valid
// and the pages.
func (e *element) accept(c *tasks) (valid, after regs.MrState) {
	c.t.Helper()
	setPages := func(pages [4]uint64) {
		for k, p := range pages {
			if at := uint64(e.mtt) + uint64(k); at < regs.MttCount {
				regs.MttOf(c.card, int(at)).SetPage(regs.MttPage(0).WithPageAddress(p))
			}
		}
	}
	setPages(e.pages)
	m := regs.MrOf(c.card, int(e.number))
	m.SetKey(e.key)
	m.SetDomain(regs.MrDomain(0).WithPd(c.pd.Number()))
	m.SetPages(regs.MrPages(0).WithPageShift(e.shift))
	m.SetVa(e.va)
	m.SetLength(e.length)
	m.SetMttFirst(e.mtt)
	m.SetFirstByte(e.first)
	m.SetControl(e.control.WithValid(true))
	valid = m.State()
	m.SetControl(0)
	after = m.State()
	setPages([4]uint64{})
	c.must(c.card.Err())
	return valid, after
}

// compareRegions writes the same elements to both, and returns how many are accepted, and the first
// difference.
func compareRegions(m, s *tasks, all int) (accepted int, text string) {
	r := rand.New(rand.NewPCG(3, 1))
	for i := range all {
		e := randomElement(r)
		want, cleared := e.accept(m)
		got, after := e.accept(s)
		if got != want || after != cleared || after != 0 {
			return 0, fmt.Sprintf("region %d, %+v: state %#x, then %#x, want %#x, then %#x", i, e, uint32(got), uint32(after), uint32(want), uint32(cleared))
		}
		if got.Usable() {
			accepted++
		}
	}
	return accepted, ""
}
