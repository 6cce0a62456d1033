// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// local executes a task in this process, as the reference.
func local(t *testing.T, d task.Descriptor, in [][]byte, size int) []byte {
	t.Helper()
	table, err := mr.New(mr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	pd := table.AllocPD()
	register := func(o task.Operand, b []byte) task.Operand {
		r, err := table.Register(mr.Spec{PD: pd, Host: b, Access: verbs.AccessLocalWrite})
		if err != nil {
			t.Fatal(err)
		}
		o.VA, o.Key, o.Origin = r.VA(), r.LKey(), false
		return o
	}
	out := make([]byte, size)
	d.Result = register(d.Result, out)
	d.Operands = append([]task.Operand(nil), d.Operands...)
	for i := range in {
		d.Operands[i] = register(d.Operands[i], in[i])
	}
	e, err := task.NewExecutor(task.Config{Cores: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	o, err := e.NewOrigin(task.Local(table, pd))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan task.Answer, 1)
	o.Submit(task.Task{Descriptor: d, Done: func(a task.Answer) { done <- a }})
	if a := <-done; a.Status != task.StatusOK {
		t.Fatalf("the reference: %v", a.Err)
	}
	return out
}

func bytesOf(v any) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic(err)
	}
	return b
}

// kernelCase is a task of a kernel: operands of float32, and the result.
type kernelCase struct {
	shapes []task.Shape
	typ    task.Type
	result task.Shape
}

// kernelCases has a task of each built-in kernel, with n elements.
func kernelCases(n, rows uint32) map[task.KernelID]kernelCase {
	v, one := task.Shape{n}, task.Shape{1}
	return map[task.KernelID]kernelCase{
		task.KernelAdd: {[]task.Shape{v, v}, task.Float32, v}, task.KernelSum: {[]task.Shape{v}, task.Float64, one},
		task.KernelMin: {[]task.Shape{v}, task.Float32, one}, task.KernelMax: {[]task.Shape{v}, task.Float32, one},
		task.KernelDot: {[]task.Shape{v, v}, task.Float64, one}, task.KernelCRC32C: {[]task.Shape{v}, task.Uint32, one},
		task.KernelGEMM:      {[]task.Shape{{rows, n / rows}, {n / rows, rows}}, task.Float32, task.Shape{rows, rows}},
		task.KernelHistogram: {[]task.Shape{v, {2}}, task.Uint64, task.Shape{50}},
	}
}

func elements(s task.Shape) int {
	n := 1
	for _, x := range s[:s.Dims()] {
		n *= int(x)
	}
	return n
}

// kernel is a kernel that takes everything.
type kernel func(ctx context.Context, out []byte) error

func (kernel) Check(task.Operand, []task.Operand) error { return nil }

func (k kernel) Run(ctx context.Context, _ *task.Descriptor, _ [][]byte, out []byte) error {
	return k(ctx, out)
}
