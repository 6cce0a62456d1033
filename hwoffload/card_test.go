// SPDX-License-Identifier: Apache-2.0

package hwoffload_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/regs/layout"
)

func TestOpen(t *testing.T) {
	c, err := hwoffload.Open(card.New())
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Blocks) != len(regs.Blocks) {
		t.Fatalf("%d blocks in the card's list, want %d", len(c.Blocks), len(regs.Blocks))
	}
	for i, b := range c.Blocks {
		want := &regs.Blocks[i]
		if uint64(b.Type) != want.Type || uint64(b.Version) != want.Version || b.Base != want.Base || b.Stride != want.Stride || b.Count != want.Count {
			t.Errorf("entry %d of the list is %+v, want block %s", i, b, want.Name)
		}
	}
}

// A new minor version and a block that this driver does not know are no obstacle.
func TestOpenNewerMinor(t *testing.T) {
	m := card.New()
	m.Put(regs.IdentVersionOffset, 1<<16|7)
	n := len(regs.Blocks)
	entry := func(i int, offset uint64) uint64 { return offset + uint64(i)*regs.IdentListTypeStride }
	m.Put(entry(n-1, regs.IdentListNextOffset), uint32(entry(n, regs.IdentListTypeOffset)))
	m.Put(entry(n, regs.IdentListTypeOffset), 4711)
	c, err := hwoffload.Open(m)
	if err != nil || len(c.Blocks) != n+1 || c.Blocks[n].Type != 4711 {
		t.Errorf("%v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	last := uint64(len(regs.Blocks)-1) * regs.IdentListTypeStride
	dest := uint64(slices.IndexFunc(regs.Blocks, func(b layout.Block) bool { return b.Name == "dest" })) * regs.IdentListTypeStride
	for name, c := range map[string]struct {
		addr uint64
		v    uint32
		want string
	}{
		"no answer":       {regs.IdentMagicOffset, 0xffffffff, "does not answer"},
		"nothing":         {regs.IdentMagicOffset, 0, "does not answer"},
		"another device":  {regs.IdentMagicOffset, 0x12345678, "no softroce card: it reads 0x12345678 at address 0, a card 0x53524331"},
		"unknown major":   {regs.IdentVersionOffset, 2 << 16, "the card has registers of version 2.0, this program knows version 1"},
		"no version":      {regs.IdentVersionOffset, 0, "version 0.0"},
		"list outside":    {regs.IdentListStartOffset, 0x2000, "leads to 0x2000"},
		"list misaligned": {regs.IdentListStartOffset, regs.IdentListTypeOffset + 4, "no entry of the list"},
		"list below":      {regs.IdentListStartOffset, 0x20, "leads to 0x20"},
		"list with loop":  {regs.IdentListNextOffset + last, regs.IdentListTypeOffset, "has a loop"},
		"list empty":      {regs.IdentListStartOffset, 0, "the card has no block ident"},
		"list ends early": {regs.IdentListNextOffset, 0, "the card has no block ports"},
		"block elsewhere": {regs.IdentListBaseOffset + dest, 0x5000, "block dest of the card has version 5 and 1024 elements of 1024 bytes at 0x5000"},
		"block version":   {regs.IdentListVersionOffset + dest, 2, "block dest of the card has version 2"},
	} {
		m := card.New()
		m.Put(c.addr, c.v)
		if _, err := hwoffload.Open(m); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
	m := card.New()
	m.Put(regs.IdentMagicOffset, 0x12345678)
	if _, err := hwoffload.Open(m); !errors.Is(err, hwoffload.ErrNoCard) {
		t.Errorf("error %v, want ErrNoCard", err)
	}
	m = card.New()
	m.Set(errors.New("link down"))
	if _, err := hwoffload.Open(m); err == nil || err.Error() != "link down" {
		t.Errorf("error %v of a device that failed", err)
	}
}
