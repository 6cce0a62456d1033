// SPDX-License-Identifier: Apache-2.0

package rtl_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/rtl"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var mrCheck = module{
	top:   "mr_check_tb",
	files: []string{registers, "mr_check.sv", "tb/mr_check_tb.sv"},
	ports: rtl.Ports{
		Clock:   "clk",
		Inputs:  []string{"start", "key", "pd", "va", "length", "rights", "slow", "write", "write_addr", "write_data"},
		Outputs: []string{"done", "ready", "fault", "ddr_addr", "ddr_bytes"},
	},
}

// granted is how many clocks a check takes that grants, as mr_check.sv says.
const granted = 18

// access is a request, and what the table says of it.
type access struct {
	key, pd uint32
	va      uint64
	bytes   uint32
	need    verbs.Access
	slow    uint64
	region  *region

	fault  mem.Fault
	pieces []piece // memory of its first bytes, up to prefix
}

// prefix is how many bytes of an access are compared byte range by byte range.
const prefix = 1 << 16

func (a *access) inputs() []uint64 {
	return []uint64{1, uint64(a.key), uint64(a.pd), a.va, uint64(a.bytes), uint64(a.need), a.slow, 0, 0, 0}
}

func writeInputs(addr, value uint64) []uint64 { return []uint64{0, 0, 0, 0, 0, 0, 0, 1, addr, value} }

// load writes the registers of a world.
func load(t *testing.T, b *rtl.Bench, m memory) {
	t.Helper()
	var in [][]uint64
	for e := range uint64(regs.MrCount) { // those that are not in m: 0, not what the simulator starts with
		for o := uint64(0); o < regs.MrStride; o += 8 {
			at := regs.MrBase + e*regs.MrStride + o
			in = append(in, writeInputs(at, m[at]))
		}
	}
	for at, v := range m {
		in = append(in, writeInputs(at, v))
	}
	if _, err := b.Cycles(in); err != nil {
		t.Fatal(err)
	}
}

// random returns an access near the limits of a region.
func (w *world) random() *access {
	r := w.r
	g := &w.regions[r.IntN(len(w.regions))]
	size := uint64(1) << g.shift
	a := &access{key: g.key, pd: g.pd, region: g}
	off := pick(r, 0, 0, 1, g.bytes-1, g.bytes, ^uint64(0), r.Uint64N(g.bytes), r.Uint64N(g.bytes)&^7, size-g.first, size-g.first-1, r.Uint64())
	a.va = g.va + off
	left := g.bytes - off
	a.bytes = uint32(pick(r, 0, 1, 8, 8, 64, left, left, left+1, min(left, size), min(left, 3*size), r.Uint64N(1<<14), r.Uint64N(1<<32), 1<<32-1))
	a.need = pick(r, 0, verbs.AccessLocalWrite, verbs.AccessRemoteWrite, verbs.AccessRemoteWrite, verbs.AccessRemoteRead,
		verbs.AccessRemoteRead, verbs.AccessRemoteAtomic, verbs.AccessBindWindows, verbs.Access(r.IntN(32))&^verbs.AccessRemoteAtomic)
	if a.need&verbs.AccessRemoteAtomic != 0 {
		a.bytes = 8
	}
	switch r.IntN(20) {
	case 0:
		a.key ^= 1 << r.IntN(32)
	case 1:
		a.key = r.Uint32()
	case 2, 3:
		a.pd = pick(r, w.pds...)
	case 4:
		a.pd ^= 1 << r.IntN(24)
	}
	if r.IntN(4) == 0 {
		a.slow = r.Uint64N(16)
	}
	w.judge(a)
	return a
}

// judge asks the table.
func (w *world) judge(a *access) {
	w.touched = nil
	switch {
	case a.need&remoteRights == 0:
		a.fault = w.table.CheckLocal(a.pd, a.key, a.va, a.bytes, a.need)
	case a.need == verbs.AccessRemoteAtomic:
		_, a.fault = w.table.FetchAdd(a.pd, qpn, a.key, a.va, 0)
	default:
		a.fault = w.table.CheckRemote(a.pd, qpn, a.key, a.va, a.bytes, a.need)
	}
	if a.fault != mem.FaultNone || a.bytes == 0 {
		return
	}
	w.touched = nil
	if f := w.table.ReadLocal(a.pd, a.key, a.va, make([]byte, min(a.bytes, prefix))); f != mem.FaultNone {
		panic("the table grants an access, and not a read of the same bytes: " + f.String())
	}
	a.pieces = w.touched
}

// check runs accesses, and returns the first difference from what the table says. An access
// that is granted goes on behind the page of its first byte, up to prefix.
func check(t *testing.T, b *rtl.Bench, all []*access) (difference string) {
	t.Helper()
	got := make([][]piece, len(all)) // by access
	rest := make([]access, len(all)) // what of each access is left
	var todo []int
	for i, a := range all {
		rest[i] = *a
		todo = append(todo, i)
	}
	for len(todo) > 0 {
		var in [][]uint64
		for _, i := range todo {
			in = append(in, rest[i].inputs())
		}
		results, err := b.Run(in)
		if err != nil {
			t.Fatal(err)
		}
		var next []int
		for j, i := range todo {
			a, left, o := all[i], &rest[i], results[j].Outputs
			p := piece{o[3], o[4]}
			if d := a.compare(left, mem.Fault(o[2]), p, results[j].Clocks); d != "" {
				return fmt.Sprintf("%+v of region %+v, %d bytes left: %s", a, a.region, left.bytes, d)
			}
			if p.bytes == 0 {
				continue
			}
			got[i] = append(got[i], p)
			left.va += p.bytes
			left.bytes -= uint32(p.bytes)
			if done := a.bytes - left.bytes; left.bytes > 0 && done < prefix && a.need != verbs.AccessRemoteAtomic {
				next = append(next, i)
			}
		}
		todo = next
	}
	for i, a := range all {
		if p := join(got[i]); !slices.Equal(p, a.pieces) {
			return fmt.Sprintf("%+v of region %+v: memory %#x", a, a.region, p)
		}
	}
	return ""
}

// compare compares one answer with the access and what was left of it.
func (a *access) compare(left *access, fault mem.Fault, p piece, clocks int) string {
	var want uint64 // bytes in the page of the first byte
	if a.fault == mem.FaultNone && left.bytes > 0 {
		size := uint64(1) << a.region.shift
		want = min(uint64(left.bytes), size-(left.va-a.region.va+a.region.first)%size)
	}
	switch {
	case fault != a.fault:
		return fmt.Sprintf("fault %v", fault)
	case p.bytes != want:
		return fmt.Sprintf("%d bytes, want %d", p.bytes, want)
	case want > 0 && a.slow == 0 && clocks != granted:
		return fmt.Sprintf("%d clocks, want %d", clocks, granted)
	}
	return ""
}

// join joins pieces that follow each other, up to prefix bytes.
func join(pieces []piece) (joined []piece) {
	total := uint64(0)
	for _, p := range pieces {
		p.bytes = min(p.bytes, prefix-total)
		total += p.bytes
		if n := len(joined); n > 0 && joined[n-1].addr+joined[n-1].bytes == p.addr {
			joined[n-1].bytes += p.bytes
		} else if p.bytes > 0 {
			joined = append(joined, p)
		}
	}
	return joined
}

// differences runs n random accesses. Counted are the faults that occurred.
func differences(t *testing.T, b *rtl.Bench, n int) (counted map[mem.Fault]int, difference string) {
	t.Helper()
	counted = map[mem.Fault]int{}
	for seed := uint64(1); n > 0; seed++ {
		w := newWorld(t, seed, 300)
		load(t, b, w.bus)
		var all []*access
		for range min(n, 20_000) {
			a := w.random()
			counted[a.fault]++
			all = append(all, a)
		}
		if difference = check(t, b, all); difference != "" {
			return counted, fmt.Sprintf("seed %d (all but the keys): %s", seed, difference)
		}
		n -= len(all)
	}
	return counted, ""
}

// The module's verdicts are those of rocev2/mr, and so are the addresses.
func TestMRCheck(t *testing.T) {
	n := quantity(100_000)
	counted, difference := differences(t, mrCheck.start(t), n)
	if difference != "" {
		t.Fatal(difference)
	}
	t.Log(counted)
	for f := mem.FaultNone; f <= mem.FaultAlign; f++ {
		if counted[f] < n/500 {
			t.Errorf("%v: %d of %d accesses", f, counted[f], n)
		}
	}
}

// The test of the test: with one comparison changed the module differs.
func TestMRCheckMutated(t *testing.T) {
	for _, c := range []change{
		{"mr_check.sv", "{32'd0, bytes} <= mem_data - offset", "{32'd0, bytes} < mem_data - offset"},
		{"mr_check.sv", "(rights & need) != need", "(rights & need) == 5'd0"},
	} {
		if _, difference := differences(t, mrCheck.start(t, c), quantity(20_000)); difference == "" {
			t.Errorf("%s instead of %s: no difference", c.new, c.old)
		}
	}
}
