// SPDX-License-Identifier: Apache-2.0

package rtl_test

import (
	"math/rand/v2"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/rtl"
)

var ddrWindow = module{
	top:   "ddr_window",
	files: []string{registers, "ddr_window.sv"},
	ports: rtl.Ports{
		Inputs:  []string{"bar_addr", "select"},
		Outputs: []string{"in_window", "ddr_addr", "bank", "bank_addr"},
	},
}

// recorder is a card that notes each access to its window, with the selection then.
type recorder struct {
	*card.Model
	accesses [][]uint64 // address in the BAR, selected window
}

func (d *recorder) R64(addr uint64) uint64 {
	if addr >= regs.DdrWindowBaseReset {
		d.accesses = append(d.accesses, []uint64{addr, uint64(regs.DdrOf(d.Model).Window().Select())})
	}
	return d.Model.R64(addr)
}

// The decoder finds the address that the driver (hwoffload.DDR) meant, at the borders of
// windows and banks too.
func TestDDRWindow(t *testing.T) {
	dev := &recorder{Model: card.New()}
	c, err := hwoffload.Open(dev)
	if err != nil {
		t.Fatal(err)
	}
	ddr := c.DDR()
	r := rand.New(rand.NewPCG(1, 1))
	var want []uint64
	for range quantity(50_000) {
		addr := r.Uint64N(hwoffload.DDRBytes)
		if r.IntN(3) == 0 { // the border of a window, which may be that of a bank
			addr = min(max(r.Uint64N(65)<<28, 24)-24+r.Uint64N(48), hwoffload.DDRBytes-24)
		}
		p := make([]byte, 1+r.IntN(24))
		n, _ := ddr.ReadAt(p, int64(addr)) // the rest may be behind the end
		for word := addr &^ 7; word < addr+uint64(n); word += 8 {
			want = append(want, word)
		}
	}
	if len(dev.accesses) != len(want) {
		t.Fatalf("%d accesses, want %d", len(dev.accesses), len(want))
	}
	got, err := ddrWindow.start(t).Cycles(dev.accesses)
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range want {
		o := got[i].Outputs
		if o[0] != 1 || o[1] != w || o[2] != w/regs.DdrBankBytesReset || o[3] != w%regs.DdrBankBytesReset {
			t.Fatalf("BAR %#x: %#x, want DDR address %#x", dev.accesses[i], o, w)
		}
	}
}

// Registers are not in the window.
func TestDDRWindowRegisters(t *testing.T) {
	b := ddrWindow.start(t)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 2000 {
		addr := r.Uint64N(hwoffload.BARSize)
		if i < 64 {
			addr = min(regs.DdrWindowBaseReset-32+uint64(i), hwoffload.BARSize-1)
		}
		got, err := b.Cycle(addr, r.Uint64N(64))
		if err != nil {
			t.Fatal(err)
		}
		if in := addr >= regs.DdrWindowBaseReset; (got[0] == 1) != in {
			t.Fatalf("BAR address %#x: in the window %d", addr, got[0])
		}
	}
}
