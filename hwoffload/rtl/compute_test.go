// SPDX-License-Identifier: Apache-2.0

package rtl_test

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/rtl"
)

var crc32c = module{
	top:   "crc32c",
	files: []string{"crc32c.sv"},
	ports: rtl.Ports{Clock: "clk", Inputs: []string{"valid", "first", "data", "bytes"}, Outputs: []string{"crc"}},
}

// Sums of random bytes, in words of random lengths with pauses between them.
func TestCRC32C(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var in [][]uint64
	var want []uint32 // before each clock
	sum := uint32(0)
	for range quantity(100_000) {
		valid, first, data, n := uint64(min(r.IntN(4), 1)), uint64(max(r.IntN(20), 18)-18), r.Uint64(), r.IntN(9)
		in = append(in, []uint64{valid, first, data, uint64(n)})
		want = append(want, sum)
		if valid == 0 {
			continue
		}
		if first == 1 {
			sum = 0
		}
		sum = crc32.Update(sum, castagnoli, binary.LittleEndian.AppendUint64(nil, data)[:n])
	}
	results, err := crc32c.start(t).Cycles(in)
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range want {
		if got := results[i].Outputs[0]; got != uint64(w) {
			t.Fatalf("clock %d after %#x: %#x, want %#x", i, in[max(i-1, 0)], got, w)
		}
	}
}

var computeCores = module{
	top:   "compute_cores_tb",
	files: []string{"crc32c.sv", "crc32c_core.sv", "compute_cores.sv", "tb/compute_cores_tb.sv"},
	ports: rtl.Ports{
		Clock:  "clk",
		Inputs: []string{"task_valid", "task_addr", "task_length", "task_tag", "result_ready", "gap", "together", "cancel"},
		Outputs: []string{"result_valid", "task_ready", "result_tag", "result_crc", "busy", "busy_clocks_0", "busy_clocks_1",
			"tasks_0", "tasks_1"},
	},
}

// operand is a range of the memory of compute_cores_tb.
type operand struct {
	addr   uint64
	length uint32
}

// crc computes the sum that is wanted.
func (o operand) crc() uint32 {
	var b []byte
	for at := o.addr &^ 7; at < o.addr+uint64(o.length); at += 8 {
		b = binary.LittleEndian.AppendUint64(b, at%(1<<34)*0x9e3779b97f4a7c15)
	}
	if o.length == 0 {
		return 0
	}
	return crc32.Checksum(b[o.addr%8:][:o.length], castagnoli)
}

// Random tasks are each executed once, and their results and the counters are right: with a
// memory that pauses and a reader of results that does, and without.
func TestComputeCores(t *testing.T) {
	b := computeCores.start(t)
	r := rand.New(rand.NewPCG(1, 1))
	for _, pause := range []uint64{0, 1} {
		var in [][]uint64
		for i := range quantity(100_000) {
			o := operand{r.Uint64N(1 << 34), uint32(pick(r, 0, 1, r.Uint64N(16), r.Uint64N(64), r.Uint64N(600)))}
			if r.IntN(10) == 0 { // beyond the end of the memory
				o.addr = 1<<34 - 1 - r.Uint64N(32)
			}
			in = append(in, []uint64{r.Uint64N(2), o.addr, uint64(o.length), uint64(i) & 0xffff, max(r.Uint64N(2), 1-pause), pause, 0, 0})
		}
		for range 20_000 { // the last tasks end
			in = append(in, []uint64{0, 0, 0, 0, 1, pause, 0, 0})
		}
		results, err := b.Cycles(in)
		if err != nil {
			t.Fatal(err)
		}
		checkTasks(t, in, results)
	}
}

// checkTasks follows the tasks from clock to clock.
func checkTasks(t *testing.T, in [][]uint64, results []rtl.Result) {
	t.Helper()
	waiting := map[uint64]operand{} // by tag
	first := results[0].Outputs
	count, clocks, parallel := first[7]+first[8], [2]uint64{first[5], first[6]}, 0
	taken := count
	for i, r := range results {
		o := r.Outputs
		if o[7]+o[8] != count || o[5] != clocks[0] || o[6] != clocks[1] {
			t.Fatalf("clock %d: counters %d, want %d tasks and %d busy clocks", i, o[5:], count, clocks)
		}
		clocks[0] += o[4] & 1
		clocks[1] += o[4] >> 1
		if o[4] == 3 {
			parallel++
		}
		if ready := o[4] != 3; (o[1] == 1) != ready {
			t.Fatalf("clock %d: busy %b, task_ready %d", i, o[4], o[1])
		}
		if o[0] == 1 && in[i][4] == 1 {
			want, ok := waiting[o[2]]
			if !ok || o[3] != uint64(want.crc()) {
				t.Fatalf("clock %d: result %#x of task %d %+v (there is one: %v)", i, o[3], o[2], want, ok)
			}
			delete(waiting, o[2])
			count++
		}
		if in[i][0] == 1 && o[1] == 1 {
			waiting[in[i][3]] = operand{in[i][1], uint32(in[i][2])}
			taken++
		}
	}
	if len(waiting) > 0 || taken-first[7]-first[8] < uint64(quantity(1000)) {
		t.Errorf("%d of %d tasks have no result", len(waiting), taken-first[7]-first[8])
	}
	if o := results[len(results)-1].Outputs; min(o[7], o[8]) < uint64(quantity(500)) || parallel < quantity(1000) {
		t.Errorf("tasks per core: %d; both were busy for %d clocks", o[7:], parallel)
	}
}

// Each of two tasks waits for the start of the other: the cores work at the same time (S1.1).
func TestComputeCoresTogether(t *testing.T) {
	b := computeCores.start(t)
	operands := []operand{{100, 1000}, {1 << 33, 77}}
	var in [][]uint64
	for i := range 1000 {
		line := []uint64{0, 0, 0, 0, 1, 0, 1, 0}
		for tag, o := range operands {
			if i == 50*tag { // the second comes much later
				line = []uint64{1, o.addr, uint64(o.length), uint64(tag), 1, 0, 1, 0}
			}
		}
		in = append(in, line)
	}
	results, err := b.Cycles(in)
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	for i, r := range results {
		o := r.Outputs
		if o[0] == 0 {
			continue
		}
		if want := operands[o[2]].crc(); o[3] != uint64(want) || i <= 50 {
			t.Errorf("task %d in clock %d: %#x, want %#x", o[2], i, o[3], want)
		}
		done++
	}
	if done != 2 {
		t.Errorf("%d of 2 tasks have a result", done)
	}
}

// The latency is as crc32c_core.sv says: 3 clocks, and 1 for each word after the first. The
// memory of the test takes 2 clocks more than the one that is meant there.
func TestComputeLatency(t *testing.T) {
	for _, c := range []struct {
		o    operand
		want int
	}{
		{operand{0, 0}, 1},
		{operand{0, 8}, 3 + 2},
		{operand{7, 2}, 3 + 2 + 1},
		{operand{0, 4096}, 3 + 2 + 511},
	} {
		b := computeCores.start(t)
		results, err := b.Run([][]uint64{{1, c.o.addr, uint64(c.o.length), 0, 1, 0, 0, 0}})
		if err != nil {
			t.Fatal(err)
		}
		if results[0].Clocks != c.want {
			t.Errorf("%+v: %d clocks, want %d", c.o, results[0].Clocks, c.want)
		}
	}
}

// A slow reader of results gets those of both cores in turn.
func TestComputeCoresTakeTurns(t *testing.T) {
	b := computeCores.start(t)
	var in [][]uint64
	for i := range uint64(1000) {
		in = append(in, []uint64{1, 0, 0, i, max(i%4, 2) - 2, 0, 0, 0})
	}
	results, err := b.Cycles(in)
	if err != nil {
		t.Fatal(err)
	}
	if o := results[len(results)-1].Outputs; o[7]+o[8] < 200 || max(o[7], o[8])-min(o[7], o[8]) > 1 {
		t.Errorf("tasks per core: %d", o[7:])
	}
}

// A task that is canceled ends without reading the rest of its operand, and the core takes another.
func TestComputeCoresCancel(t *testing.T) {
	b := computeCores.start(t)
	long, short := operand{0, 1 << 31}, operand{3, 700}
	in := [][]uint64{{1, long.addr, uint64(long.length), 1, 1, 1, 0, 0}, {1, short.addr, uint64(short.length), 2, 1, 1, 0, 0}}
	for i := range uint64(20_000) {
		in = append(in, []uint64{0, 0, 0, 0, 1, 1, 0, max(i, 9_999) / 10_000}) // core 0, from clock 10 000 on
	}
	in = append(in, []uint64{1, short.addr, uint64(short.length), 3, 1, 0, 0, 0})
	for range 500 {
		in = append(in, []uint64{0, 0, 0, 0, 1, 0, 0, 0})
	}
	results, err := b.Cycles(in)
	if err != nil {
		t.Fatal(err)
	}
	var tags []uint64
	for i, r := range results {
		o := r.Outputs
		if o[0] == 0 {
			continue
		}
		tags = append(tags, o[2])
		if o[2] == 1 && (i < 10_000 || i > 10_100) {
			t.Errorf("the canceled task ends in clock %d", i)
		}
		if o[2] != 1 && o[3] != uint64(short.crc()) {
			t.Errorf("task %d: %#x, want %#x", o[2], o[3], short.crc())
		}
	}
	if !slices.Equal(tags, []uint64{2, 1, 3}) {
		t.Errorf("results of tasks %d", tags)
	}
}
