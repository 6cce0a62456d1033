// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
)

// gemm is KernelGEMM: the product of two matrices, plus a third one if there are three
// operands, by gonum. Large products use several threads of the process.
type gemm struct{}

func (gemm) Check(result Operand, in []Operand) error {
	if len(in) != 2 && len(in) != 3 {
		return fmt.Errorf("%d operands: it takes 2 or 3", len(in))
	}
	a, b := in[0], in[1]
	if a.Type != Float32 && a.Type != Float64 {
		return fmt.Errorf("operand 0 has %s: it takes %s and %s", a.Type, Float32, Float64)
	}
	if a.Shape.Dims() != 2 {
		return fmt.Errorf("operand 0 has %s: it needs a matrix", a.Shape)
	}
	if b.Shape.Dims() != 2 || b.Shape[0] != a.Shape[1] || b.Type != a.Type {
		return fmt.Errorf("operand 1 has %s %s: it needs a matrix of %s with %d rows", b.Shape, b.Type, a.Type, a.Shape[1])
	}
	product := Shape{a.Shape[0], b.Shape[1]}
	if len(in) == 3 {
		if err := alike("operand 2", in[2], a.Type, product); err != nil {
			return err
		}
	}
	return alike("the result", result, a.Type, product)
}

func (gemm) Run(ctx context.Context, d *Descriptor, in [][]byte, out []byte) error {
	m, k, n := int(d.Operands[0].Shape[0]), int(d.Operands[0].Shape[1]), int(d.Operands[1].Shape[1])
	if d.Result.Type == Float32 {
		a, b, c := matrices[float32](m, k, n, in)
		err := rows(ctx, m, k, n, func(at, count int) {
			blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, blas32.General{Rows: count, Cols: k, Stride: k, Data: a[at*k:]},
				blas32.General{Rows: k, Cols: n, Stride: n, Data: b}, 1, blas32.General{Rows: count, Cols: n, Stride: n, Data: c[at*n:]})
		})
		encode(out, c)
		return err
	}
	a, b, c := matrices[float64](m, k, n, in)
	err := rows(ctx, m, k, n, func(at, count int) {
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, blas64.General{Rows: count, Cols: k, Stride: k, Data: a[at*k:]},
			blas64.General{Rows: k, Cols: n, Stride: n, Data: b}, 1, blas64.General{Rows: count, Cols: n, Stride: n, Data: c[at*n:]})
	})
	encode(out, c)
	return err
}

// matrices reads the operands: m rows and k columns, k rows and n columns, and what the product
// is added to.
func matrices[T number](m, k, n int, in [][]byte) (a, b, c []T) {
	a, b, c = load(make([]T, m*k), in[0]), load(make([]T, k*n), in[1]), make([]T, m*n)
	if len(in) == 3 {
		load(c, in[2])
	}
	return a, b, c
}

// stepFlops is about how many multiplications a step of a product has. Between steps the end of
// the context is checked.
const stepFlops = 1 << 27

// rows calls do for some rows after the others, so that a step has about stepFlops.
func rows(ctx context.Context, m, k, n int, do func(at, count int)) error {
	step := max(1, min(m, stepFlops/(k*n)))
	for at := 0; at < m; at += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		do(at, min(step, m-at))
	}
	return nil
}
