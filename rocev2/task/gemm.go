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
// operands, by gonum.
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
		err := tiles(ctx, m, n, func(i, j, rows, cols int) {
			blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, blas32.General{Rows: rows, Cols: k, Stride: k, Data: a[i*k:]},
				blas32.General{Rows: k, Cols: cols, Stride: n, Data: b[j:]}, 1, blas32.General{Rows: rows, Cols: cols, Stride: n, Data: c[i*n+j:]})
		})
		encode(out, c)
		return err
	}
	a, b, c := matrices[float64](m, k, n, in)
	err := tiles(ctx, m, n, func(i, j, rows, cols int) {
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, blas64.General{Rows: rows, Cols: k, Stride: k, Data: a[i*k:]},
			blas64.General{Rows: k, Cols: cols, Stride: n, Data: b[j:]}, 1, blas64.General{Rows: rows, Cols: cols, Stride: n, Data: c[i*n+j:]})
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

// A part of a product has at most tileRows rows and tileCols columns. gonum starts goroutines for
// four blocks of 64 x 64 and more, whose threads would not have the priority of the core.
const (
	tileRows = 64
	tileCols = 3 * 64
)

// tiles calls do for each part of a result of m rows and n columns: its first row and column, and
// how many it has. It ends early with ctx.
func tiles(ctx context.Context, m, n int, do func(i, j, rows, cols int)) error {
	for i := 0; i < m; i += tileRows {
		for j := 0; j < n; j += tileCols {
			if err := ctx.Err(); err != nil {
				return err
			}
			do(i, j, min(tileRows, m-i), min(tileCols, n-j))
		}
	}
	return nil
}
