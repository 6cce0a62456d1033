// SPDX-License-Identifier: Apache-2.0

package devtest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/internal/devtest"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/regs/layout"
)

// The model has the registers of the definition.
func TestModel(t *testing.T) {
	m := card.New()
	devtest.Run(t, m, devtest.Options{Put: m.Put})
	devtest.Run(t, card.New(), devtest.Options{})
}

// Each exception is a register of the definition, and has a reason.
func TestExceptions(t *testing.T) {
	for name, why := range devtest.Exceptions() {
		found := false
		for _, b := range regs.Blocks {
			found = found || slices.ContainsFunc(b.Registers, func(r layout.Register) bool { return b.Name+"."+r.Name == name })
		}
		if !found || why == "" {
			t.Errorf("exception %s: %q", name, why)
		}
	}
}

// wrong is a model with a defect.
type wrong struct {
	*card.Model
	r32 func(addr uint64, v uint32) uint32           // result of a read
	w32 func(addr uint64, v uint32) (uint64, uint32) // effect of a write
	r64 func(addr uint64) uint64
	w64 func(addr, v uint64)
	err error
}

func (w *wrong) R32(addr uint64) uint32 {
	v := w.Model.R32(addr)
	if w.r32 != nil {
		v = w.r32(addr, v)
	}
	return v
}

func (w *wrong) W32(addr uint64, v uint32) {
	if w.w32 != nil {
		addr, v = w.w32(addr, v)
	}
	w.Model.W32(addr, v)
}

func (w *wrong) R64(addr uint64) uint64 {
	if w.r64 != nil {
		return w.r64(addr)
	}
	return uint64(w.R32(addr)) | uint64(w.R32(addr+4))<<32
}

func (w *wrong) W64(addr, v uint64) {
	if w.w64 != nil {
		w.w64(addr, v)
		return
	}
	w.W32(addr, uint32(v))
	w.W32(addr+4, uint32(v>>32))
}

func (w *wrong) Err() error { return errors.Join(w.err, w.Model.Err()) }

// Each defect is found, and the problem names the register.
func TestFindsDefects(t *testing.T) {
	const dest1023 = regs.DestBase + 1023*regs.DestStride
	for name, c := range map[string]struct {
		make func(m *card.Model) *wrong
		want string
	}{
		"a wrong reset value": {func(m *card.Model) *wrong {
			m.Put(regs.DdrBase+regs.DdrBanksOffset, 3)
			return &wrong{Model: m}
		}, "ddr.banks of element 0, 0 is 0x3 after reset, want 0x4"},
		"RO is written": {func(m *card.Model) *wrong {
			return &wrong{Model: m, w32: func(addr uint64, v uint32) (uint64, uint32) {
				if addr == regs.PortsBase+regs.PortsStatusOffset {
					m.Put(addr, v)
				}
				return addr, v
			}}
		}, "ports.status of element 0, 0 is 0x1 after a write of ones, want 0x0"},
		"RW has a bit less": {func(m *card.Model) *wrong {
			return &wrong{Model: m, w32: func(addr uint64, v uint32) (uint64, uint32) {
				if addr == dest1023+regs.DestTxNsOffset+4 {
					v &^= 1 << 31
				}
				return addr, v
			}}
		}, "dest.tx_ns of element 1023, 0 is 0x7fffffffffffffff after a write of ones"},
		"RW1C clears all": {func(m *card.Model) *wrong {
			return &wrong{Model: m, w32: func(addr uint64, v uint32) (uint64, uint32) {
				if addr == regs.PortsBase+regs.PortsStride+regs.PortsEventsOffset && v != 0 {
					v = ^uint32(0)
				}
				return addr, v
			}}
		}, "ports.events of element 1, 0 is 0x0 after one RW1C bit was cleared, want 0x2"},
		"a reserved bit": {func(m *card.Model) *wrong {
			return &wrong{Model: m, r32: func(addr uint64, v uint32) uint32 {
				if addr == regs.CallsBase+regs.CallsResultOffset {
					v |= 1 << 31
				}
				return v
			}}
		}, "calls.result of element 0, 0 is 0x80000000 after reset"},
		"a reserved address": {func(m *card.Model) *wrong {
			return &wrong{Model: m, r32: func(addr uint64, v uint32) uint32 {
				if addr == regs.DestBase+regs.DestStride-4 {
					v = 1
				}
				return v
			}}
		}, "reserved address 0x1003fc is 0x1"},
		"a reserved address that aliases": {func(m *card.Model) *wrong {
			return &wrong{Model: m, w32: func(addr uint64, v uint32) (uint64, uint32) {
				if addr == regs.DestBase+regs.DestStride-4 {
					addr = regs.IdentBase + regs.IdentScratchOffset
				}
				return addr, v
			}}
		}, "ident.scratch of element 0, 0 is 0xffffffff after writes to reserved addresses"},
		"elements that alias": {func(m *card.Model) *wrong {
			alias := func(addr uint64) uint64 {
				if addr >= dest1023 && addr < dest1023+regs.DestStride {
					addr -= 1022 * regs.DestStride
				}
				return addr
			}
			return &wrong{Model: m, w32: func(addr uint64, v uint32) (uint64, uint32) { return alias(addr), v },
				r32: func(addr uint64, v uint32) uint32 { return m.R32(alias(addr)) }}
		}, "dest.tx_ns of element 1, 0 is"},
		"a command that reads back": {func(m *card.Model) *wrong {
			var last uint32
			return &wrong{Model: m, w32: func(addr uint64, v uint32) (uint64, uint32) {
				if addr == regs.PortsBase+regs.PortsCommandOffset {
					last = v
				}
				return addr, v
			}, r32: func(addr uint64, v uint32) uint32 {
				if addr == regs.PortsBase+regs.PortsCommandOffset {
					v = last
				}
				return v
			}}
		}, "ports.command of element 0, 0 is 0x1 in its WO bits"},
		"halves in the wrong order": {func(m *card.Model) *wrong {
			half := func(addr uint64) uint64 {
				if addr&^4 == regs.PortsBase+regs.PortsMacOffset {
					addr ^= 4
				}
				return addr
			}
			return &wrong{Model: m, r64: func(addr uint64) uint64 {
				return uint64(m.R32(half(addr))) | uint64(m.R32(half(addr+4)))<<32
			}, w64: func(addr, v uint64) { m.W32(half(addr), uint32(v)); m.W32(half(addr+4), uint32(v>>32)) }}
		}, "ports.mac of element 0, 0 has the halves"},
		"a device that fails": {func(m *card.Model) *wrong {
			return &wrong{Model: m, err: errors.New("link down")}
		}, "the device failed: link down"},
	} {
		m := card.New()
		var d hwoffload.Device = c.make(m)
		problems := devtest.Check(d, devtest.Options{Put: m.Put})
		if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, c.want) }) {
			t.Errorf("%s: no problem %q in\n%s", name, c.want, strings.Join(problems, "\n"))
		}
	}
}
