// SPDX-License-Identifier: Apache-2.0

package rtl_test

import (
	"math"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/rtl"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// one is a region of two pages, in element 5 of mr and from element 7 of mtt on.
func one() memory {
	m := memory{}
	r := regs.MrOf(m, 5)
	r.SetKey(5<<16 | 0x1234)
	r.SetDomain(regs.MrDomain(0).WithPd(3))
	r.SetPages(regs.MrPages(0).WithPageShift(12))
	r.SetVa(0x10000)
	r.SetLength(8192)
	r.SetMttFirst(7)
	regs.MttOf(m, 7).SetPage(regs.MttPage(0).WithPageAddress(0x3_0000_1000))
	regs.MttOf(m, 8).SetPage(regs.MttPage(0).WithPageAddress(0x1_0000_0000))
	m.W32(stateAddr(5), uint32(regs.MrState(0).WithUsable(true)))
	r.SetControl(regs.MrControl(0).WithValid(true).WithLocalWrite(true).WithRemoteWrite(true))
	return m
}

var write = access{key: 5<<16 | 0x1234, pd: 3, va: 0x10000, bytes: 8192, need: verbs.AccessRemoteWrite}

// Registers that contradict each other, which rocev2/mr never has: the driver has a mistake.
// The answer is a fault, and never an address outside of the pages.
func TestMRCheckImpossible(t *testing.T) {
	b := mrCheck.start(t)
	for _, c := range []struct {
		name   string
		change func(m memory, r regs.Mr, a *access)
		want   mem.Fault
	}{
		{"as it is", func(memory, regs.Mr, *access) {}, mem.FaultNone},
		{"not accepted by the card", func(m memory, _ regs.Mr, _ *access) { m.W32(stateAddr(5), 0) }, mem.FaultKey},
		{"element behind the last", func(_ memory, _ regs.Mr, a *access) { a.key = 1024<<16 | 0x1234 }, mem.FaultKey},
		{"page too small", func(_ memory, r regs.Mr, _ *access) { r.SetPages(11) }, mem.FaultBackend},
		{"page too large", func(m memory, r regs.Mr, _ *access) { r.SetPages(31); m[regs.MttBase+7*8] = 0 }, mem.FaultBackend},
		{"page much too large", func(m memory, r regs.Mr, _ *access) { r.SetPages(63); m[regs.MttBase+7*8] = 0 }, mem.FaultBackend},
		{"largest page", func(m memory, r regs.Mr, a *access) { r.SetPages(30); m[regs.MttBase+7*8] = 3 << 30 }, mem.FaultNone},
		{"first page behind the last", func(_ memory, r regs.Mr, _ *access) { r.SetMttFirst(regs.MttCount) }, mem.FaultBackend},
		{"first page far behind", func(_ memory, r regs.Mr, _ *access) { r.SetMttFirst(math.MaxUint32) }, mem.FaultBackend},
		{"second page behind the last", func(_ memory, r regs.Mr, a *access) {
			r.SetMttFirst(regs.MttCount - 1)
			a.va, a.bytes = 0x11000, 4096
		}, mem.FaultBackend},
		{"first byte far behind", func(_ memory, r regs.Mr, _ *access) { r.SetFirstByte(math.MaxUint32) }, mem.FaultBackend},
		{"page not aligned", func(m memory, _ regs.Mr, _ *access) { m[regs.MttBase+7*8] += 2048 }, mem.FaultBackend},
		{"all addresses", func(_ memory, r regs.Mr, a *access) {
			r.SetVa(0)
			r.SetLength(math.MaxUint64)
			a.va = math.MaxUint64 - 8192
		}, mem.FaultBackend},
		{"position beyond 64 bits", func(_ memory, r regs.Mr, a *access) {
			r.SetVa(0)
			r.SetLength(math.MaxUint64)
			r.SetFirstByte(8192 + 4096)
			a.va = math.MaxUint64 - 8192
		}, mem.FaultBackend},
		{"window that is bound", func(_ memory, r regs.Mr, _ *access) { r.SetControl(r.Control().WithKind(3)) }, mem.FaultState},
		{"no bytes", func(_ memory, r regs.Mr, a *access) { a.bytes, a.key = 0, 0 }, mem.FaultNone},
	} {
		m, a := one(), write
		c.change(m, regs.MrOf(m, 5), &a)
		load(t, b, m)
		results, err := b.Run([][]uint64{a.inputs()})
		if err != nil {
			t.Fatal(err)
		}
		o := results[0].Outputs
		if mem.Fault(o[2]) != c.want {
			t.Errorf("%s: %v, want %v", c.name, mem.Fault(o[2]), c.want)
		}
		if granted := c.want == mem.FaultNone && a.bytes > 0; (o[4] > 0) != granted || (o[3] > 0) != granted {
			t.Errorf("%s: %d bytes at %#x", c.name, o[4], o[3])
		}
	}
}

// The driver replaces a region by another one of the same domain, in the middle of a check:
// the answer is that of the first, or a refusal, and never a mixture.
func TestMRCheckReplaced(t *testing.T) {
	b := mrCheck.start(t)
	const base = regs.MrBase + 5*regs.MrStride
	replacement := [][]uint64{
		writeInputs(base, 0), // not valid
		writeInputs(base+0x10, 0x10000-4096),
		writeInputs(base+0x20, 8), // mtt_first
		writeInputs(base, one()[base]+1<<32),
	}
	outcomes := map[mem.Fault]int{}
	for at := range granted + 2 {
		load(t, b, one())
		in := [][]uint64{write.inputs()}
		for len(in) <= at {
			in = append(in, make([]uint64, len(in[0])))
		}
		in = append(in, replacement...)
		for range granted {
			in = append(in, make([]uint64, len(in[0])))
		}
		results, err := b.Cycles(in)
		if err != nil {
			t.Fatal(err)
		}
		o := outputs(t, results)
		outcomes[mem.Fault(o[2])]++
		if whole := o[3] == 0x3_0000_1000 && o[4] == 4096; mem.Fault(o[2]) == mem.FaultNone && !whole {
			t.Errorf("replaced from clock %d on: %d bytes at %#x", at, o[4], o[3])
		}
	}
	if outcomes[mem.FaultNone] == 0 || outcomes[mem.FaultKey] == 0 {
		t.Errorf("outcomes %v", outcomes)
	}
}

// outputs returns the outputs of the clock with done.
func outputs(t *testing.T, results []rtl.Result) []uint64 {
	t.Helper()
	for _, r := range results {
		if r.Outputs[0] == 1 {
			return r.Outputs
		}
	}
	t.Fatal("no answer")
	return nil
}
