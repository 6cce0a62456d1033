// SPDX-License-Identifier: Apache-2.0

// Package layout has the types that describe the registers of the card: blocks, registers and
// fields. Internal to this project. Command gen reads them from the definition, and package regs
// has them as a table.
package layout

import "fmt"

// Access is what the driver may do with a field.
type Access uint8

// The kinds of access. Bits that belong to no field are reserved: they read 0, and what is
// written to them is ignored.
const (
	RO   Access = iota // writes are ignored
	RW                 // reads return the last value written
	WO                 // a command; reads return 0
	RW1C               // the card sets bits, and a written 1 clears a bit
)

var accessNames = [...]string{"RO", "RW", "WO", "RW1C"}

func (a Access) String() string {
	if int(a) < len(accessNames) {
		return accessNames[a]
	}
	return fmt.Sprintf("access %d", uint8(a))
}

// ParseAccess is the inverse of Access.String.
func ParseAccess(s string) (Access, error) {
	for i, name := range accessNames {
		if s == name {
			return Access(i), nil
		}
	}
	return 0, fmt.Errorf("unknown access %q: use RO, RW, WO or RW1C", s)
}

// Field is a range of bits of a register.
type Field struct {
	Name   string
	LSB    uint // number of its lowest bit
	Bits   uint // width
	Access Access
	Signed bool    // two's complement
	Reset  uint64  // value after reset
	Unit   string  // unit of the value; empty = a number
	Text   string  // meaning
	Values []Value // values of a field of a Record by name; empty = a number
}

// Value is a value of a field that has a name.
type Value struct {
	Name  string
	Value uint64
}

// Mask has the field's bits of the register.
func (f *Field) Mask() uint64 { return ^uint64(0) >> (64 - f.Bits) << f.LSB }

// Register is a word of 32 or 64 bits, or an array of such words.
type Register struct {
	Name   string
	Offset uint64 // offset of element 0 in the block's element, bytes
	Bits   uint   // 32 or 64
	Stride uint64 // bytes from one element to the next; of no meaning if Count is 1
	Count  uint64 // elements
	Text   string
	Fields []Field
	Resets []uint64 // reset values of the elements if they differ; empty = those of the fields
}

// Single reports whether one field has the name of the register, and is the only one.
func (r *Register) Single() bool { return len(r.Fields) == 1 && r.Fields[0].Name == r.Name }

// Counter reports whether the register counts something: it has 64 bits, a unit, and only the card
// writes it.
func (r *Register) Counter() bool {
	return r.Bits == 64 && r.Count == 1 && r.Single() && r.Fields[0].Unit != "" && r.Fields[0].Access == RO
}

// Mask has the bits of all fields with an access.
func (r *Register) Mask(a Access) (mask uint64) {
	for i := range r.Fields {
		if r.Fields[i].Access == a {
			mask |= r.Fields[i].Mask()
		}
	}
	return mask
}

// Reset is the value of element i after reset.
func (r *Register) Reset(i uint64) (value uint64) {
	if len(r.Resets) > 0 {
		return r.Resets[i]
	}
	for i := range r.Fields {
		value |= r.Fields[i].Reset << r.Fields[i].LSB
	}
	return value
}

// Block is a range of addresses: an array of equal elements, each with the same registers.
type Block struct {
	Name      string
	Type      uint64 // number in the list of blocks
	Version   uint64 // raised when a register moves or changes its meaning
	Base      uint64 // address of element 0, bytes
	Stride    uint64 // bytes from one element to the next
	Count     uint64 // elements
	Text      string
	Registers []Register
}

// Size is the length of the block in bytes.
func (b *Block) Size() uint64 { return b.Stride * b.Count }

// Address is the address of element j of register r in the block's element i.
func (b *Block) Address(i uint64, r *Register, j uint64) uint64 {
	return b.Base + i*b.Stride + r.Offset + j*r.Stride
}

// Record is a structure in memory, such as an entry of a queue. Its words are little-endian and
// have 64 bits.
type Record struct {
	Name  string
	Bytes uint64 // length
	Text  string
	Words []Register // words whose fields have the access RW; no field name occurs twice in a record
}
