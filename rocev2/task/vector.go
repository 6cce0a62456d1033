// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// number is the type of an element.
type number interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// fold names a reduction.
type fold uint8

const (
	sum fold = iota
	smallest
	largest
)

// vector has the computations on elements of one type. Lengths were checked.
type vector interface {
	add(ctx context.Context, a, b, out []byte) error
	reduce(ctx context.Context, f fold, in, out []byte) error
	dot(ctx context.Context, a, b, out []byte) error
	histogram(ctx context.Context, in, limits, out []byte) error
}

var vectors = map[Type]vector{
	Int8: of[int8, int64]{}, Int16: of[int16, int64]{}, Int32: of[int32, int64]{}, Int64: of[int64, int64]{},
	Uint8: of[uint8, uint64]{}, Uint16: of[uint16, uint64]{}, Uint32: of[uint32, uint64]{}, Uint64: of[uint64, uint64]{},
	Float32: of[float32, float64]{}, Float64: of[float64, float64]{},
}

// of is the vector of type T. Sums have type W.
type of[T number, W int64 | uint64 | float64] struct{}

// chunk is how many elements are computed between two checks for the end of the context.
const chunk = 1 << 13

// each calls do for one chunk of elements after the other. n and size are in bytes. at is the
// offset of the chunk, length what it has.
func each(ctx context.Context, n, size int, do func(at, length int)) error {
	for at := 0; at < n; at += chunk * size {
		if err := ctx.Err(); err != nil {
			return err
		}
		do(at, min(n-at, chunk*size))
	}
	return nil
}

// load reads the elements of b into the start of dst.
func load[T number](dst []T, b []byte) []T {
	var zero T
	dst = dst[:len(b)/binary.Size(zero)]
	decode(b, dst)
	return dst
}

// decode reads little-endian elements. A length that does not fit is a mistake of the caller.
func decode(b []byte, to any) {
	if _, err := binary.Decode(b, binary.LittleEndian, to); err != nil {
		panic(err)
	}
}

func encode(b []byte, from any) {
	if _, err := binary.Encode(b, binary.LittleEndian, from); err != nil {
		panic(err)
	}
}

// size is the number of bytes of an element.
func (of[T, W]) size() int { var zero T; return binary.Size(zero) }

// add computes a + b; integers wrap.
func (v of[T, W]) add(ctx context.Context, a, b, out []byte) error {
	x, y := make([]T, chunk), make([]T, chunk)
	return each(ctx, len(a), v.size(), func(at, n int) {
		xs, ys := load(x, a[at:at+n]), load(y, b[at:at+n])
		for i := range xs {
			xs[i] += ys[i]
		}
		encode(out[at:at+n], xs)
	})
}

// reduce computes the sum as W, from the first element to the last, or the smallest or largest
// element. Integer sums wrap. A NaN makes the result a NaN.
func (v of[T, W]) reduce(ctx context.Context, f fold, in, out []byte) error {
	var total W
	buf := make([]T, chunk)
	extreme := load(buf, in[:v.size()])[0]
	err := each(ctx, len(in), v.size(), func(at, n int) {
		xs := load(buf, in[at:at+n])
		switch f {
		case sum:
			for _, x := range xs {
				total += W(x)
			}
		case smallest:
			for _, x := range xs {
				extreme = min(extreme, x)
			}
		case largest:
			for _, x := range xs {
				extreme = max(extreme, x)
			}
		}
	})
	if f == sum {
		encode(out, []W{total})
	} else {
		encode(out, []T{extreme})
	}
	return err
}

// dot computes the sum of the products as W, from the first element to the last. Integers wrap.
func (v of[T, W]) dot(ctx context.Context, a, b, out []byte) error {
	var total W
	x, y := make([]T, chunk), make([]T, chunk)
	err := each(ctx, len(a), v.size(), func(at, n int) {
		xs, ys := load(x, a[at:at+n]), load(y, b[at:at+n])
		for i := range xs {
			total += W(xs[i]) * W(ys[i])
		}
	})
	encode(out, []W{total})
	return err
}

// histogram counts the elements in bins of equal width between two limits.
func (v of[T, W]) histogram(ctx context.Context, in, limits, out []byte) error {
	var l [2]T
	load(l[:], limits)
	lo, hi := l[0], l[1]
	bin, err := v.bins(lo, hi, uint64(len(out)/8))
	if err != nil {
		return err
	}
	counts := make([]uint64, len(out)/8)
	buf := make([]T, chunk)
	err = each(ctx, len(in), v.size(), func(at, n int) {
		for _, x := range load(buf, in[at:at+n]) {
			if x >= lo && x < hi {
				counts[bin(x)]++
			}
		}
	})
	encode(out, counts)
	return err
}

// bins returns the function from an element in [lo, hi) to its bin. It is exact for integers.
func (v of[T, W]) bins(lo, hi T, n uint64) (func(T) uint64, error) {
	if !(lo < hi) {
		return nil, fmt.Errorf("limits %v and %v of a histogram: the first must be smaller", lo, hi)
	}
	if T(1)/T(2) == 0 { // integers
		from := uint64(lo)
		width := uint64(hi) - from
		return func(x T) uint64 {
			high, low := bits.Mul64(uint64(x)-from, n)
			bin, _ := bits.Div64(high, low, width)
			return bin
		}, nil
	}
	from, width := float64(lo), float64(hi)-float64(lo)
	if math.IsInf(width, 0) {
		return nil, errors.New("limits of a histogram: their difference is not finite")
	}
	return func(x T) uint64 { return min(uint64((float64(x)-from)/width*float64(n)), n-1) }, nil
}
