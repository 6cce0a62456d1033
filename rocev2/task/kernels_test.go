// SPDX-License-Identifier: Apache-2.0

package task

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

// elements draws a vector that is longer than a chunk now and then. Values are extreme often.
func elements[T number](r *rapid.T, gen *rapid.Generator[T], name string, n int) []T {
	v := rapid.SliceOfN(gen, min(n, 50), min(n, 50)).Draw(r, name)
	for len(v) < n {
		v = append(v, v[:min(len(v), n-len(v))]...)
	}
	return v
}

func lengths(r *rapid.T) int {
	if rapid.IntRange(0, 9).Draw(r, "long") > 0 {
		return rapid.IntRange(1, 50).Draw(r, "n")
	}
	return rapid.SampledFrom([]int{chunk - 1, chunk, chunk + 1, 3*chunk + 7}).Draw(r, "n")
}

// integers compares the kernels on an integer type with arithmetic of any length.
func integers[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](typ Type, gen *rapid.Generator[T]) func(*testing.T) {
	exact := func(x T) *big.Int {
		if typ.Wide() == Int64 {
			return big.NewInt(int64(x))
		}
		return new(big.Int).SetUint64(uint64(x))
	}
	low := func(x *big.Int, size uint32) []byte { // the low bytes, little-endian
		x = new(big.Int).And(x, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(size)*8), big.NewInt(1)))
		b := x.FillBytes(make([]byte, size))
		for i := range b[:size/2] {
			b[i], b[int(size)-1-i] = b[int(size)-1-i], b[i]
		}
		return b
	}
	return func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) {
			n := lengths(r)
			a, b := elements(r, gen, "a", n), elements(r, gen, "b", n)
			bins := rapid.IntRange(1, 20).Draw(r, "bins")
			lo, hi := gen.Draw(r, "lo"), gen.Draw(r, "hi")
			total, product, smallest, largest := new(big.Int), new(big.Int), a[0], a[0]
			var added []byte
			counts := make([]uint64, bins)
			for i := range a {
				x, y := exact(a[i]), exact(b[i])
				total.Add(total, x)
				product.Add(product, new(big.Int).Mul(x, y))
				added = append(added, low(new(big.Int).Add(x, y), typ.Size())...)
				if x.Cmp(exact(smallest)) < 0 {
					smallest = a[i]
				}
				if x.Cmp(exact(largest)) > 0 {
					largest = a[i]
				}
				if x.Cmp(exact(lo)) >= 0 && x.Cmp(exact(hi)) < 0 {
					at := new(big.Int).Sub(x, exact(lo))
					at.Mul(at, big.NewInt(int64(bins))).Div(at, new(big.Int).Sub(exact(hi), exact(lo)))
					counts[at.Int64()]++
				}
			}
			k := checker{r, t, typ, n}
			k.equal(KernelAdd, added, typ, Shape{uint32(n)}, a, b)
			k.equal(KernelSum, low(total, 8), typ.Wide(), scalar, a)
			k.equal(KernelDot, low(product, 8), typ.Wide(), scalar, a, b)
			k.equal(KernelMin, bytesOf(t, smallest), typ, scalar, a)
			k.equal(KernelMax, bytesOf(t, largest), typ, scalar, a)
			if lo < hi {
				k.equal(KernelHistogram, bytesOf(t, counts), Uint64, Shape{uint32(bins)}, a, []T{lo, hi})
			}
		})
	}
}

// checker compares results of kernels.
type checker struct {
	r   *rapid.T
	t   *testing.T
	typ Type
	n   int
}

// equal runs a kernel through an executor.
func (k checker) equal(id KernelID, want []byte, typ Type, s Shape, operands ...any) {
	k.r.Helper()
	w := shared(k.t)
	defer w.forget()
	out := make([]byte, len(want))
	d := Descriptor{Kernel: id, Result: w.operand(out, typ, s)}
	for _, v := range operands {
		b := bytesOf(k.t, v)
		d.Operands = append(d.Operands, w.operand(b, k.typ, Shape{uint32(len(b)) / k.typ.Size()}))
	}
	if a := w.run(d); a.Err != nil || !bytes.Equal(out, want) {
		k.r.Errorf("kernel %d on %d %s: %v\n%x, want\n%x", id, k.n, k.typ, a.Err, out, want)
	}
}

// worlds has the executor of each test, so that a property does not start one for each case.
var worlds = map[*testing.T]*world{}

func shared(t *testing.T) *world {
	if worlds[t] == nil {
		worlds[t] = newWorld(t, Config{Cores: 2})
	}
	return worlds[t]
}

func TestIntegerKernels(t *testing.T) {
	t.Run("int8", integers(Int8, rapid.Int8()))
	t.Run("int16", integers(Int16, rapid.Int16()))
	t.Run("int32", integers(Int32, rapid.Int32()))
	t.Run("int64", integers(Int64, rapid.Int64()))
	t.Run("uint8", integers(Uint8, rapid.Uint8()))
	t.Run("uint16", integers(Uint16, rapid.Uint16()))
	t.Run("uint32", integers(Uint32, rapid.Uint32()))
	t.Run("uint64", integers(Uint64, rapid.Uint64()))
}

// floats compares the kernels on floating point with loops from the first element to the last.
// Infinities are among the values.
func floats[T float32 | float64](typ Type, gen *rapid.Generator[T]) func(*testing.T) {
	return func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) {
			n := lengths(r)
			a, b := elements(r, gen, "a", n), elements(r, gen, "b", n)
			added := make([]T, n)
			var total, product float64
			smallest, largest := math.Inf(1), math.Inf(-1)
			for i := range a {
				added[i] = a[i] + b[i]
				total += float64(a[i])
				product += float64(a[i]) * float64(b[i])
				smallest = math.Min(smallest, float64(a[i]))
				largest = math.Max(largest, float64(a[i]))
			}
			k := checker{r, t, typ, n}
			k.equal(KernelAdd, bytesOf(t, added), typ, Shape{uint32(n)}, a, b)
			k.equal(KernelSum, bytesOf(t, total), Float64, scalar, a)
			k.equal(KernelDot, bytesOf(t, product), Float64, scalar, a, b)
			k.equal(KernelMin, bytesOf(t, T(smallest)), typ, scalar, a)
			k.equal(KernelMax, bytesOf(t, T(largest)), typ, scalar, a)
			// The width of a bin is a power of two: only the distance from -2 is rounded.
			counts := make([]uint64, 16)
			for _, x := range a {
				from := float64(x) + 2
				for i := range counts {
					if x < 2 && from >= float64(i)/4 && (from < float64(i+1)/4 || i == 15) {
						counts[i]++
					}
				}
			}
			k.equal(KernelHistogram, bytesOf(t, counts), Uint64, Shape{16}, a, []T{-2, 2})
		})
	}
}

func TestFloatKernels(t *testing.T) {
	t.Run("float32", floats(Float32, rapid.OneOf(rapid.Float32(), rapid.Float32Range(-3, 3))))
	t.Run("float64", floats(Float64, rapid.OneOf(rapid.Float64(), rapid.Float64Range(-3, 3))))
}

// A NaN anywhere is the result of min and max, and is in no bin.
func TestNaN(t *testing.T) {
	w := newWorld(t, Config{Cores: 1})
	in := w.operand(bytesOf(t, []float64{1, math.NaN(), 3}), Float64, Shape{3})
	for _, id := range []KernelID{KernelMin, KernelMax, KernelSum} {
		out := make([]byte, 8)
		want(t, "NaN", w.run(Descriptor{Kernel: id, Result: w.operand(out, Float64, scalar), Operands: []Operand{in}}), StatusOK)
		var got [1]float64
		if decode(out, got[:]); !math.IsNaN(got[0]) {
			t.Errorf("kernel %d: %v", id, got[0])
		}
	}
	out := make([]byte, 16)
	limits := w.operand(bytesOf(t, []float64{0, 4}), Float64, Shape{2})
	want(t, "histogram", w.run(Descriptor{Kernel: KernelHistogram, Result: w.operand(out, Uint64, Shape{2}), Operands: []Operand{in, limits}}), StatusOK)
	if !bytes.Equal(out, bytesOf(t, []uint64{1, 1})) {
		t.Errorf("histogram %x", out)
	}
}

// GEMM on whole numbers, where no order of the sums rounds, is the product by the definition.
func TestGEMM(t *testing.T) {
	t.Run("float32", product[float32](Float32))
	t.Run("float64", product[float64](Float64))
}

func product[T float32 | float64](typ Type) func(*testing.T) {
	return func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) {
			extent := rapid.OneOf(rapid.IntRange(1, 9), rapid.SampledFrom([]int{63, 64, 65, 130}))
			m, k, n := extent.Draw(r, "m"), extent.Draw(r, "k"), extent.Draw(r, "n")
			value := rapid.Custom(func(r *rapid.T) T { return T(rapid.IntRange(-20, 20).Draw(r, "v")) })
			a, b, c := elements(r, value, "a", m*k), elements(r, value, "b", k*n), elements(r, value, "c", m*n)
			plain, plus := make([]T, m*n), make([]T, m*n)
			for i := range m {
				for j := range n {
					for l := range k {
						plain[i*n+j] += a[i*k+l] * b[l*n+j]
					}
					plus[i*n+j] = plain[i*n+j] + c[i*n+j]
				}
			}
			w := shared(t)
			defer w.forget()
			shapes := []Shape{{uint32(m), uint32(k)}, {uint32(k), uint32(n)}, {uint32(m), uint32(n)}}
			var in []Operand
			for i, v := range [][]T{a, b, c} {
				in = append(in, w.operand(bytesOf(t, v), typ, shapes[i]))
			}
			for count, reference := range map[int][]T{2: plain, 3: plus} {
				out := make([]byte, len(reference)*int(typ.Size()))
				got := w.run(Descriptor{Kernel: KernelGEMM, Result: w.operand(out, typ, shapes[2]), Operands: in[:count]})
				if got.Err != nil || !bytes.Equal(out, bytesOf(t, reference)) {
					r.Errorf("%d x %d x %d, %d operands: %v", m, k, n, count, got.Err)
				}
			}
		})
	}
}

// CRC-32C by its definition, bit by bit, and the check value of RFC 3720 B.4.
func TestCRC32C(t *testing.T) {
	w := newWorld(t, Config{Cores: 1})
	check := func(b []byte, want uint32) error {
		defer w.forget()
		out := make([]byte, 4)
		a := w.run(Descriptor{
			Kernel: KernelCRC32C, Result: w.operand(out, Uint32, scalar), Operands: []Operand{w.operand(b, Uint8, Shape{uint32(len(b))})},
		})
		if a.Err != nil || !bytes.Equal(out, bytesOf(t, want)) {
			return fmt.Errorf("%d bytes: %x, want %#x; %v", len(b), out, want, a.Err)
		}
		return nil
	}
	if err := check(make([]byte, 32), 0x8a9136aa); err != nil {
		t.Error(err)
	}
	rapid.Check(t, func(r *rapid.T) {
		b := elements(r, rapid.Byte(), "b", rapid.OneOf(rapid.IntRange(1, 100), rapid.Just(8*chunk+3)).Draw(r, "n"))
		crc := ^uint32(0)
		for _, x := range b {
			crc ^= uint32(x)
			for range 8 {
				crc = crc>>1 ^ 0x82f63b78&-(crc&1)
			}
		}
		if err := check(b, ^crc); err != nil {
			r.Error(err)
		}
	})
}

// Kernels end with their context.
func TestKernelsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	in := make([]byte, 32)
	decimals := bytesOf(t, []float64{0, 1})
	o := Operand{Length: 32, Type: Float64, Shape: Shape{2, 2}}
	d := Descriptor{Operands: []Operand{o, o}, Result: o}
	r := Builtin()
	for _, id := range r.IDs() {
		second := in
		if id == KernelHistogram {
			second = decimals
		}
		if err := r.Kernel(id).Run(ctx, &d, [][]byte{in, second}, make([]byte, 32)); err != context.Canceled {
			t.Errorf("kernel %d: %v", id, err)
		}
	}
}

// Parts of a product cover it once, and none is so large that gonum starts goroutines.
func TestTiles(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {64, 192}, {65, 193}, {1, 1000}, {1000, 1}, {300, 700}} {
		m, n := size[0], size[1]
		seen := make([]int, m*n)
		testkit.Must(t, tiles(context.Background(), m, n, func(i, j, rows, cols int) {
			if ((rows+63)/64)*((cols+63)/64) >= 4 {
				t.Errorf("%d x %d: a part of %d x %d", m, n, rows, cols)
			}
			for r := range rows {
				for c := range cols {
					seen[(i+r)*n+j+c]++
				}
			}
		}))
		for i, count := range seen {
			if count != 1 {
				t.Fatalf("%d x %d: element %d is in %d parts", m, n, i, count)
			}
		}
	}
}
