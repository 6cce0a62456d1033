// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"strings"
	"testing"
)

func TestAccess(t *testing.T) {
	for a := RO; a <= RW1C; a++ {
		if got, err := ParseAccess(a.String()); err != nil || got != a {
			t.Errorf("%s came back as %s, %v", a, got, err)
		}
	}
	if _, err := ParseAccess("W1C"); err == nil || !strings.Contains(err.Error(), `unknown access "W1C": use RO, RW, WO or RW1C`) {
		t.Errorf("%v", err)
	}
	if got := Access(9).String(); got != "access 9" {
		t.Error(got)
	}
}

func TestMasks(t *testing.T) {
	r := Register{Name: "r", Bits: 64, Fields: []Field{
		{Name: "a", LSB: 0, Bits: 1, Access: RW, Reset: 1},
		{Name: "b", LSB: 4, Bits: 60, Access: RO, Reset: 2},
	}}
	if r.Mask(RW) != 1 || r.Mask(RO) != ^uint64(15) || r.Mask(WO) != 0 || r.Reset(0) != 0x21 || r.Single() {
		t.Errorf("%#x %#x %#x", r.Mask(RW), r.Mask(RO), r.Reset(0))
	}
	whole := Field{Bits: 64}
	if whole.Mask() != ^uint64(0) {
		t.Errorf("%#x", whole.Mask())
	}
	r.Resets = []uint64{7, 8}
	if r.Reset(1) != 8 {
		t.Errorf("%d", r.Reset(1))
	}
}

func TestAddress(t *testing.T) {
	b := Block{Base: 0x1000, Stride: 0x100, Count: 4}
	r := Register{Offset: 8, Stride: 0x10, Count: 3}
	if got := b.Address(3, &r, 2); got != 0x1328 || b.Size() != 0x400 {
		t.Errorf("%#x", got)
	}
}

// A counter has 64 bits, a unit, and one field that only the card writes.
func TestCounter(t *testing.T) {
	counter := Register{Name: "r", Bits: 64, Count: 1, Fields: []Field{{Name: "r", Bits: 64, Unit: "packets", Access: RO}}}
	if !counter.Counter() {
		t.Error("a counter is none")
	}
	for name, change := range map[string]func(r *Register){
		"32 bits":    func(r *Register) { r.Bits = 32 },
		"an array":   func(r *Register) { r.Count = 2 },
		"no unit":    func(r *Register) { r.Fields[0].Unit = "" },
		"RW":         func(r *Register) { r.Fields[0].Access = RW },
		"two fields": func(r *Register) { r.Fields = append(r.Fields, Field{Name: "s"}) },
	} {
		r := counter
		r.Fields = append([]Field{}, counter.Fields...)
		if change(&r); r.Counter() {
			t.Errorf("%s: a counter", name)
		}
	}
}
