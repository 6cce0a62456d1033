// SPDX-License-Identifier: Apache-2.0

package task

import (
	"bytes"
	"context"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// wrongMemory is what wrong tasks are made of: parts of a region, and keys that do not fit.
type wrongMemory struct {
	at              func(off, n int, typ Type, s ...uint32) Operand
	all             Operand
	readOnly, other uint32
}

// wrongTask makes a task wrong in one way.
type wrongTask struct {
	status Status
	change func(d *Descriptor)
}

func (m wrongMemory) tasks() map[string]wrongTask {
	return map[string]wrongTask{
		"no such kernel":         {StatusKernel, func(d *Descriptor) { d.Kernel = 99 }},
		"kernel 0":               {StatusKernel, func(d *Descriptor) { d.Kernel = 0 }},
		"length":                 {StatusDescriptor, func(d *Descriptor) { d.Result.Length-- }},
		"no type":                {StatusDescriptor, func(d *Descriptor) { d.Operands[1].Type = 0 }},
		"no shape":               {StatusDescriptor, func(d *Descriptor) { d.Operands[1].Shape = Shape{} }},
		"7 operands":             {StatusDescriptor, func(d *Descriptor) { d.Operands = make([]Operand, 7) }},
		"address wraps":          {StatusDescriptor, func(d *Descriptor) { d.Result.VA = 1<<64 - 15 }},
		"no operands":            {StatusOperand, func(d *Descriptor) { d.Operands = nil }},
		"an operand too many":    {StatusOperand, func(d *Descriptor) { d.Operands = append(d.Operands, d.Operands[0]) }},
		"another type":           {StatusOperand, func(d *Descriptor) { d.Operands[1].Type = Int32 }},
		"another shape":          {StatusOperand, func(d *Descriptor) { d.Operands[1].Shape = Shape{2, 2} }},
		"result of another type": {StatusOperand, func(d *Descriptor) { d.Result.Type = Uint32 }},
		"too large": {StatusTooLarge, func(d *Descriptor) {
			d.Kernel, d.Operands, d.Result = KernelCRC32C, []Operand{m.at(0, 997, Uint8, 997)}, m.at(0, 4, Uint32, 1)
		}},
		"key of an operand":      {StatusAccess, func(d *Descriptor) { d.Operands[0].Key ^= 1 << 31 }},
		"key of the result":      {StatusAccess, func(d *Descriptor) { d.Result.Key++ }},
		"operand behind region":  {StatusAccess, func(d *Descriptor) { d.Operands[1].VA = m.all.VA + 512 - 15 }},
		"operand before region":  {StatusAccess, func(d *Descriptor) { d.Operands[1].VA = m.all.VA - 1 }},
		"result behind region":   {StatusAccess, func(d *Descriptor) { d.Result.VA = m.all.VA + 512 - 15 }},
		"result is not writable": {StatusAccess, func(d *Descriptor) { d.Result.Key = m.readOnly }},
		"protection domain":      {StatusAccess, func(d *Descriptor) { d.Operands[0].Key = m.other }},
		"memory of another node": {StatusAccess, func(d *Descriptor) { d.Operands[0].Origin = true }},
		"result of another node": {StatusAccess, func(d *Descriptor) { d.Result.Origin = true }},
		"limits of the histogram": {StatusFailed, func(d *Descriptor) {
			d.Kernel, d.Operands[1], d.Result = KernelHistogram, m.at(32, 8, Float32, 2), m.at(0, 8, Uint64, 1)
		}},
		"gemm of vectors": {StatusOperand, func(d *Descriptor) { d.Kernel = KernelGEMM }},
		"gemm of integers": {StatusOperand, func(d *Descriptor) {
			d.Kernel, d.Result = KernelGEMM, m.at(0, 16, Int32, 2, 2)
			d.Operands = []Operand{d.Result, d.Result}
		}},
		"gemm of other shapes": {StatusOperand, func(d *Descriptor) {
			d.Kernel, d.Result = KernelGEMM, m.at(0, 16, Float32, 2, 2)
			d.Operands = []Operand{d.Result, m.at(16, 12, Float32, 3, 1)}
		}},
		"dot of matrices": {StatusOperand, func(d *Descriptor) {
			d.Kernel, d.Result = KernelDot, m.at(0, 8, Float64, 1)
			d.Operands = []Operand{m.at(0, 16, Float32, 2, 2), m.at(0, 16, Float32, 2, 2)}
		}},
		"sum that is not wide": {StatusOperand, func(d *Descriptor) {
			d.Kernel, d.Operands = KernelSum, d.Operands[:1]
			d.Result = m.at(0, 4, Float32, 1)
		}},
		"crc of two":           {StatusOperand, func(d *Descriptor) { d.Kernel, d.Result = KernelCRC32C, m.at(0, 4, Uint32, 1) }},
		"bins of another type": {StatusOperand, func(d *Descriptor) { d.Kernel, d.Operands[1] = KernelHistogram, m.at(32, 8, Float32, 2) }},
	}
}

// Tasks that are wrong in one way have the right status, and write nothing.
func TestRefused(t *testing.T) {
	w := newWorld(t, Config{Cores: 1, MaxBytes: 1000})
	memory := make([]byte, 512)
	all := w.operand(memory, Uint8, Shape{512})
	readOnly := testkit.Must1(w.table.Register(mr.Spec{PD: w.pd, Host: memory}))(t)
	other := testkit.Must1(w.table.Register(mr.Spec{PD: w.table.AllocPD(), Host: memory, Access: verbs.AccessLocalWrite}))(t)
	at := func(off, n int, typ Type, s ...uint32) Operand {
		o := Operand{VA: all.VA + uint64(off), Length: uint32(n), Key: all.Key, Type: typ}
		copy(o.Shape[:], s)
		return o
	}
	good := func() Descriptor {
		return Descriptor{Kernel: KernelAdd, Result: at(0, 16, Float32, 4), Operands: []Operand{at(16, 16, Float32, 4), at(32, 16, Float32, 4)}}
	}
	m := wrongMemory{at, all, readOnly.LKey(), other.LKey()}
	for what, c := range m.tasks() {
		for i := range memory {
			memory[i] = 0x40
		}
		d := good()
		c.change(&d)
		want(t, what, w.run(d), c.status)
		if !bytes.Equal(memory, bytes.Repeat([]byte{0x40}, len(memory))) {
			t.Errorf("%s: memory was written", what)
		}
	}
	if want(t, "unchanged", w.run(good()), StatusOK); memory[3] == 0x40 && memory[2] == 0x40 {
		t.Errorf("the right task wrote %x", memory[:16])
	}
	if a := w.submitAs(Descriptor{ID: MaxID + 2}); wait(t, a).Status != StatusDescriptor {
		t.Error("an id of 25 bits")
	}
}

// The region of the result goes away while the kernel runs: the task fails, and nothing of the
// result is written.
func TestRegionGone(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	w := newWorld(t, Config{Cores: 1, Kernels: with(t, func(_ context.Context, _ *Descriptor, _ [][]byte, out []byte) error {
		entered <- struct{}{}
		<-leave
		out[0] = 1
		return nil
	})})
	out := make([]byte, 8)
	a := w.submit(Descriptor{Kernel: FirstOwnKernel, Result: w.operand(out, Uint8, Shape{8})})
	<-entered
	w.forget()
	close(leave)
	want(t, "gone", wait(t, a), StatusAccess)
	if !bytes.Equal(out, make([]byte, 8)) {
		t.Errorf("written %x", out)
	}
}

// brokenMemory grants all accesses and fails them.
type brokenMemory struct{ writes int }

func (*brokenMemory) Check(*Operand, verbs.Access) mem.Fault { return mem.FaultNone }
func (*brokenMemory) Read(*Operand, []byte) mem.Fault        { return mem.FaultBackend }
func (b *brokenMemory) Write(*Operand, []byte) mem.Fault     { b.writes++; return mem.FaultBackend }

func TestMemoryFails(t *testing.T) {
	w := newWorld(t, Config{Cores: 1})
	m := &brokenMemory{}
	c := make(chan Answer, 1)
	d := Descriptor{Kernel: KernelMax, Result: Operand{Length: 1, Type: Int8, Shape: scalar}, Operands: []Operand{{Length: 1, Type: Int8, Shape: scalar}}}
	w.origin.Submit(Task{Descriptor: d, Memory: m, Done: func(a Answer) { c <- a }})
	want(t, "operand", wait(t, c), StatusMemory)
	if m.writes != 0 {
		t.Error("the result of a task without operands was written")
	}
}

// Remote uses rkeys and remote rights.
func TestRemoteMemory(t *testing.T) {
	w := newWorld(t, Config{Cores: 1})
	b := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	rights := func(a verbs.Access) Operand {
		r := testkit.Must1(w.table.Register(mr.Spec{PD: w.pd, Host: b, Access: a}))(t)
		return Operand{VA: r.VA(), Length: 8, Key: r.LKey(), Type: Uint8, Shape: Shape{8}}
	}
	read, write, none := rights(verbs.AccessRemoteRead), rights(verbs.AccessRemoteWrite|verbs.AccessLocalWrite), rights(verbs.AccessLocalWrite)
	origin := read
	origin.Origin = true
	m := Remote(w.table, w.pd, 5)
	for _, c := range []struct {
		o           Operand
		read, write mem.Fault
	}{
		{read, mem.FaultNone, mem.FaultRights}, {write, mem.FaultRights, mem.FaultNone}, {none, mem.FaultRights, mem.FaultRights},
		{origin, mem.FaultKey, mem.FaultKey},
	} {
		if got := m.Check(&c.o, 0); got != c.read || m.Read(&c.o, make([]byte, 8)) != c.read {
			t.Errorf("read: %v, want %v", got, c.read)
		}
		if got := m.Check(&c.o, verbs.AccessLocalWrite); got != c.write || m.Write(&c.o, b) != c.write {
			t.Errorf("write: %v, want %v", got, c.write)
		}
	}
}
