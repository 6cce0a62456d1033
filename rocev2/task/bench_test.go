// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"hash/crc32"
	"testing"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

// pipeline executes b.N tasks, up to 64 at a time.
func pipeline(b *testing.B, w *world, d Descriptor) {
	done := make(chan Answer, 64)
	flight := 0
	next := func() {
		if a := <-done; a.Err != nil {
			b.Fatal(a.Err)
		}
		flight--
	}
	for range b.N {
		if flight == cap(done) {
			next()
		}
		d.ID = w.next
		w.next = (w.next + 1) & MaxID
		flight++
		w.origin.Submit(Task{Descriptor: d, Done: func(a Answer) { done <- a }})
	}
	for flight > 0 {
		next()
	}
}

// BenchmarkEmpty executes tasks whose kernel does nothing.
func BenchmarkEmpty(b *testing.B) {
	w := newWorld(b, Config{Kernels: with(b, func(context.Context, *Descriptor, [][]byte, []byte) error { return nil })})
	d := Descriptor{Kernel: FirstOwnKernel, Result: w.operand(make([]byte, 8), Uint64, scalar)}
	b.ResetTimer()
	pipeline(b, w, d)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

// compare executes tasks, and then calls the library as often on as many goroutines as there are
// cores. It reports both in units per second, and the ratio.
func compare(b *testing.B, w *world, d Descriptor, units float64, name string, plain func()) {
	b.ResetTimer()
	pipeline(b, w, d)
	b.StopTimer()
	tasks := b.Elapsed()
	share := make(chan struct{}, b.N)
	for range b.N {
		share <- struct{}{}
	}
	close(share)
	ended := make(chan struct{})
	began := time.Now()
	cores := len(w.exec.Cores())
	for range cores {
		go func() {
			for range share {
				plain()
			}
			ended <- struct{}{}
		}()
	}
	for range cores {
		<-ended
	}
	library := time.Since(began)
	total := units * float64(b.N)
	b.ReportMetric(total/tasks.Seconds(), name)
	b.ReportMetric(total/library.Seconds(), "plain-"+name)
	b.ReportMetric(library.Seconds()/tasks.Seconds(), "ratio")
}

func BenchmarkCRC32C(b *testing.B) {
	for _, c := range []struct {
		name string
		n    int
	}{{"4KB", 4 << 10}, {"64KB", 64 << 10}, {"1MB", 1 << 20}} {
		b.Run(c.name, func(b *testing.B) {
			w := newWorld(b, Config{})
			data := make([]byte, c.n)
			d := Descriptor{
				Kernel: KernelCRC32C, Operands: []Operand{w.operand(data, Uint8, Shape{uint32(c.n)})}, Result: w.operand(make([]byte, 4), Uint32, scalar),
			}
			compare(b, w, d, float64(c.n)/1e6, "MB/s", func() { crc32.Checksum(data, castagnoli) })
		})
	}
}

func BenchmarkGEMM(b *testing.B) {
	for _, c := range []struct {
		name string
		n    int
	}{{"32", 32}, {"128", 128}, {"512", 512}} {
		b.Run(c.name, func(b *testing.B) {
			w := newWorld(b, Config{})
			v := make([]float64, c.n*c.n)
			for i := range v {
				v[i] = float64(i % 17)
			}
			s := Shape{uint32(c.n), uint32(c.n)}
			in := w.operand(bytesOf(b, v), Float64, s)
			d := Descriptor{Kernel: KernelGEMM, Operands: []Operand{in, in}, Result: w.operand(make([]byte, 8*len(v)), Float64, s)}
			x := blas64.General{Rows: c.n, Cols: c.n, Stride: c.n, Data: v}
			compare(b, w, d, 2*float64(c.n*c.n*c.n)/1e9, "GFLOP/s", func() {
				y := x
				y.Data = make([]float64, len(v))
				blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, x, x, 0, y)
			})
		})
	}
}

// BenchmarkRemote executes tasks of 4 KB through a queue pair of an engine in this process.
func BenchmarkRemote(b *testing.B) {
	here, there := both(b, 64, 64)
	serve(b, there, newExecutor(b, Config{}), nil, 64)
	c := newClient(b, here, 64)
	work := make(chan struct{}, b.N)
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	ended := make(chan error)
	b.ResetTimer()
	const callers = 64
	for range callers {
		d := Descriptor{
			Kernel: KernelCRC32C, Immediate: true, Operands: []Operand{here.origin(make([]byte, 4096), Uint8, Shape{4096})},
			Result: here.origin(make([]byte, 4), Uint32, scalar),
		}
		go func() {
			var err error
			for range work {
				if err = c.Do(context.Background(), &d); err != nil {
					break
				}
			}
			ended <- err
		}()
	}
	for range callers {
		testkit.Must(b, <-ended)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}
