// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// BenchmarkReadNextToKernels measures a READ of 4 KB through an engine of this process while kernels
// compute on as many cores as there are CPUs, at the lowest priority and at the normal one. Rounds
// without kernels take turns with them: the metrics are the medians, and the ratio to those without.
func BenchmarkReadNextToKernels(b *testing.B) {
	for _, background := range []bool{true, false} {
		name := "normal"
		if background {
			name = "lowest"
		}
		b.Run(name, func(b *testing.B) { readNextToKernels(b, background) })
	}
}

func readNextToKernels(b *testing.B, background bool) {
	here, there := both(b, 0, 0)
	_, from := there.register(make([]byte, 4096), Uint8, Shape{4096})
	to, _ := here.register(make([]byte, 4096), Uint8, Shape{4096})
	wr := verbs.SendWR{
		Op: verbs.OpRead, Flags: verbs.Signaled, RemoteAddr: from.VA, RKey: from.Key,
		SGL: []verbs.SGE{{Addr: to.VA(), Len: 4096, LKey: to.LKey()}},
	}
	w := newWorld(b, Config{Background: background, Kernels: Builtin()})
	side := Shape{512, 512}
	matrix := w.operand(bytesOf(b, make([]float64, 512*512)), Float64, side)
	d := Descriptor{Kernel: KernelGEMM, Operands: []Operand{matrix, matrix}, Result: w.operand(make([]byte, 8*512*512), Float64, side)}

	const round = 20_000
	var quiet, busy []time.Duration
	for range b.N {
		quiet = reads(b, here, &wr, round, quiet)
		stop := w.keepBusy(d)
		busy = reads(b, here, &wr, round, busy)
		stop()
	}
	us := func(v []time.Duration, of float64) float64 {
		slices.Sort(v)
		return float64(v[int(of*float64(len(v)-1))]) / 1e3
	}
	b.ReportMetric(us(quiet, .5), "quiet-p50-us")
	b.ReportMetric(us(busy, .5), "p50-us")
	b.ReportMetric(us(busy, .99), "p99-us")
	b.ReportMetric(us(busy, .5)/us(quiet, .5), "p50-ratio")
	b.ReportMetric(us(busy, .99)/us(quiet, .99), "p99-ratio")
}

// reads appends the times of n READs, one after the other.
func reads(b *testing.B, n *node, wr *verbs.SendWR, count int, times []time.Duration) []time.Duration {
	for range count {
		began := time.Now()
		testkit.Must(b, n.qp.PostSend(wr))
		testkit.Must(b, n.cq.Wait(context.Background(), false))
		var c [1]verbs.Completion
		if n.cq.Poll(c[:]); c[0].Status != verbs.StatusSuccess {
			b.Fatalf("%+v", c[0])
		}
		times = append(times, time.Since(began))
	}
	return times
}

// keepBusy has all cores execute a task again and again, until stop is called.
func (w *world) keepBusy(d Descriptor) (stop func()) {
	tasks := 2 * len(w.exec.Cores())
	ended := make(chan Answer, tasks)
	submit := func() {
		d.ID = w.next
		w.next = (w.next + 1) & MaxID
		w.origin.Submit(Task{Descriptor: d, Done: func(a Answer) { ended <- a }})
	}
	for range tasks {
		submit()
	}
	quit, idle := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(idle)
		for flight := tasks; flight > 0; {
			<-ended
			flight--
			select {
			case <-quit:
			default:
				submit()
				flight++
			}
		}
	}()
	return func() { close(quit); <-idle }
}
