// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// expect judges the number of operands.
func expect(operands []Operand, want int) error {
	if len(operands) != want {
		return fmt.Errorf("%d operands: it takes %d", len(operands), want)
	}
	return nil
}

// alike judges whether an operand has a type and a shape.
func alike(what string, o Operand, t Type, s Shape) error {
	if o.Type != t || o.Shape != s {
		return fmt.Errorf("%s has %s %s: it needs %s %s", what, o.Shape, o.Type, s, t)
	}
	return nil
}

// scalar is the shape of a single element.
var scalar = Shape{1}

// add is KernelAdd: element by element, any type and shape.
type add struct{}

func (add) Check(result Operand, in []Operand) error {
	if err := expect(in, 2); err != nil {
		return err
	}
	if err := alike("operand 1", in[1], in[0].Type, in[0].Shape); err != nil {
		return err
	}
	return alike("the result", result, in[0].Type, in[0].Shape)
}

func (add) Run(ctx context.Context, d *Descriptor, in [][]byte, out []byte) error {
	return vectors[d.Result.Type].add(ctx, in[0], in[1], out)
}

// reduce is KernelSum, KernelMin and KernelMax: one element from all.
type reduce struct{ fold fold }

func (k reduce) Check(result Operand, in []Operand) error {
	if err := expect(in, 1); err != nil {
		return err
	}
	t := in[0].Type
	if k.fold == sum {
		t = t.Wide()
	}
	return alike("the result", result, t, scalar)
}

func (k reduce) Run(ctx context.Context, d *Descriptor, in [][]byte, out []byte) error {
	return vectors[d.Operands[0].Type].reduce(ctx, k.fold, in[0], out)
}

// dot is KernelDot: the sum of the products of two vectors.
type dot struct{}

func (dot) Check(result Operand, in []Operand) error {
	if err := expect(in, 2); err != nil {
		return err
	}
	if in[0].Shape.Dims() != 1 {
		return fmt.Errorf("operand 0 has %s: it needs a vector", in[0].Shape)
	}
	if err := alike("operand 1", in[1], in[0].Type, in[0].Shape); err != nil {
		return err
	}
	return alike("the result", result, in[0].Type.Wide(), scalar)
}

func (dot) Run(ctx context.Context, d *Descriptor, in [][]byte, out []byte) error {
	return vectors[d.Operands[0].Type].dot(ctx, in[0], in[1], out)
}

// crc32C is KernelCRC32C: the CRC-32C (Castagnoli, RFC 3385) of the bytes of an operand.
type crc32C struct{}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (crc32C) Check(result Operand, in []Operand) error {
	if err := expect(in, 1); err != nil {
		return err
	}
	return alike("the result", result, Uint32, scalar)
}

func (crc32C) Run(ctx context.Context, d *Descriptor, in [][]byte, out []byte) error {
	crc := uint32(0)
	err := each(ctx, len(in[0]), 8, func(at, n int) { crc = crc32.Update(crc, castagnoli, in[0][at:at+n]) })
	binary.LittleEndian.PutUint32(out, crc)
	return err
}

// histogram is KernelHistogram: how many elements each bin has.
type histogram struct{}

func (histogram) Check(result Operand, in []Operand) error {
	if err := expect(in, 2); err != nil {
		return err
	}
	if err := alike("operand 1", in[1], in[0].Type, Shape{2}); err != nil {
		return err
	}
	if result.Type != Uint64 || result.Shape.Dims() != 1 {
		return fmt.Errorf("the result has %s %s: it needs a vector of uint64", result.Shape, result.Type)
	}
	return nil
}

func (histogram) Run(ctx context.Context, d *Descriptor, in [][]byte, out []byte) error {
	return vectors[d.Operands[0].Type].histogram(ctx, in[0], in[1], out)
}
