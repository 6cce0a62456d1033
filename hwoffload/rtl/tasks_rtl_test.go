// SPDX-License-Identifier: Apache-2.0

package rtl_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/rtl"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// All cores of the RTL work at the same time: each has taken a task before one can end (S1.1).
func TestTasksTogether(t *testing.T) {
	c := onRTL(t)
	c.start(8)
	mr := c.region(c.pd.Number(), verbs.AccessLocalWrite)
	c.rtl.Stall()
	for i := range regs.TaskCoresReset + 1 {
		c.submit(crcOf(mr, i, 1000, 2000+4*i))
	}
	c.rtl.Step(2000)
	e := regs.TaskOf(c.card)
	if e.Consumer() != regs.TaskCoresReset || e.CompletionProducer() != 0 {
		t.Errorf("%d tasks are taken and %d have ended, want %d and 0", e.Consumer(), e.CompletionProducer(), regs.TaskCoresReset)
	}
	c.rtl.Run()
	for range regs.TaskCoresReset + 1 {
		if a, err := c.ring.Wait(c.ctx); err != nil || a.Status != task.StatusOK {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	cores, err := c.ring.Cores()
	c.must(err)
	for i, core := range cores {
		if core.Tasks == 0 || core.Busy <= 0 {
			t.Errorf("core %d: %+v", i, core)
		}
	}
}

// A region that ends while a task reads it is not read any more: the task fails (S2.6).
func TestTaskLosesRegion(t *testing.T) {
	for clocks := range uint64(8) {
		c := onRTL(t)
		c.start(4)
		mr, readable := c.region(c.pd.Number(), verbs.AccessLocalWrite), c.region(c.pd.Number(), 0)
		before := noise(rand.New(rand.NewPCG(4, clocks)), dataBytes)
		c.write(dataBase, before)
		c.rtl.Stall()
		d := crcOf(readable, 0, 2000, 0) // in one page, which was checked
		if clocks%2 == 1 {
			d = crcOf(readable, 0, 100000, 0)
		}
		d.Result = crcOf(mr, 0, 8, dataBytes-4).Result
		c.submit(d)
		c.rtl.Step(1000 + clocks)
		c.must(readable.Deregister())
		c.rtl.Run()
		if a, err := c.ring.Wait(c.ctx); err != nil || a.Status != task.StatusAccess {
			t.Errorf("a task whose operand ends: %+v, %v", a, err)
		}
		if n, failed, _ := c.counters(); n != 1 || failed != 1 {
			t.Errorf("%d tasks, %d failed", n, failed)
		}
		if got := c.bytesAt(dataBase+dataBytes-4, 4); string(got) != string(before[dataBytes-4:]) {
			t.Errorf("the result is written: %x", got)
		}
		if s := c.run(crcOf(mr, 0, 5000, 6000)); s != task.StatusOK { // the core is free again
			t.Error(s)
		}
	}
}

// Stop ends tasks that cannot go on, and the next start has cores and indexes as the first.
func TestStopWhileStalled(t *testing.T) {
	c := onRTL(t)
	c.start(8)
	mr := c.region(c.pd.Number(), verbs.AccessLocalWrite)
	c.write(dataBase, make([]byte, dataBytes))
	c.rtl.Stall()
	for i := range 8 {
		c.submit(crcOf(mr, 0, 100000, 110000+4*i))
	}
	c.rtl.Step(3000)
	c.must(c.ring.Stop(c.ctx))
	c.rtl.Run()
	c.rtl.Step(300000)
	for _, b := range c.bytesAt(dataBase+110000, 32) {
		if b != 0 {
			t.Fatal("a task that was stopped has a result")
		}
	}
	c.start(2)
	for range 5 {
		if s := c.run(crcOf(mr, 3, 5000, 6000)); s != task.StatusOK {
			t.Error(s)
		}
	}
}

// BenchmarkTask measures cycles of tasks of several lengths: from the doorbell to the answer, to a few
// cycles, and how long the core was busy.
func BenchmarkTask(b *testing.B) {
	for _, n := range []int{8, 4096, 65536} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkTask(b, n) })
	}
}

func benchmarkTask(b *testing.B, n int) {
	c := onRTL(b)
	c.start(2)
	mr := c.region(c.pd.Number(), verbs.AccessLocalWrite)
	c.rtl.Hold()
	producer := regs.TaskOf(c.card).CompletionProducer
	var cycles uint64
	for b.Loop() {
		before, began := producer(), c.rtl.Cycles()
		c.submit(crcOf(mr, 1<<12-0x123, n, 100000)) // begins with a page
		for producer() == before {
			c.rtl.Step(1)
		}
		cycles += c.rtl.Cycles() - began
		if a, err := c.ring.Wait(c.ctx); err != nil || a.Status != task.StatusOK {
			b.Fatal(a, err)
		}
	}
	done, _, busy := c.counters()
	b.ReportMetric(float64(cycles)/float64(b.N), "cycles/task")
	b.ReportMetric(float64(busy.Nanoseconds())*rtl.ClockHz/1e9/float64(done), "core-cycles/task")
}
