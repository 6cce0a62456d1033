// SPDX-License-Identifier: Apache-2.0

package task

import (
	"encoding/binary"
	"fmt"
	"math"
)

const (
	version = 1

	// MaxOperands is the largest number of operands of a task.
	MaxOperands = 6

	headerLen  = 16
	operandLen = 32

	// SlotLen is the length of a slot of a ring of descriptors, in bytes. What follows the
	// descriptor in its slot is not read.
	SlotLen = 256

	// MaxID is the largest task id.
	MaxID = 1<<24 - 1
)

// ID is the number of a task at its origin, 24 bits. An origin gives its tasks increasing
// numbers; 0 follows MaxID.
type ID uint32

// after is how many ids i is after j, negative if it is before.
func (i ID) after(j ID) int { return int(int32(uint32(i-j)<<8) >> 8) }

// Descriptor is a task. Its bytes, big-endian (docs/reference/wire-format.md):
//
//	0 version(8)=1  1 flags(8)  2 kernel(16)  4 zero(8)  5 task id(24)  8 operands(8)  9 zero(56)
//	16 result (an operand)  48 operands, 32 bytes each
//
// Flags: bit 0 Immediate, others zero.
type Descriptor struct {
	Kernel    KernelID
	ID        ID
	Immediate bool // the answer is immediate data (Server only)
	Result    Operand
	Operands  []Operand
}

// Operand is memory with elements of one type. Its bytes, big-endian:
//
//	0 va(64)  8 length(32)  12 key(32)  16 type(8)  17 flags(8)  18 zero(16)  20 extents(3*32)
//
// Flags: bit 0 Origin, others zero.
type Operand struct {
	VA     uint64 // address of the first byte
	Length uint32 // bytes: those of all elements
	Key    uint32 // lkey of a task of this host, rkey of a task of another node
	Type   Type
	Shape  Shape

	// Origin means the memory of the node that the task comes from (Server only). Otherwise
	// it is the memory of the node that executes the task.
	Origin bool
}

// Len is the length of the descriptor in bytes.
func (d *Descriptor) Len() int { return headerLen + operandLen*(1+len(d.Operands)) }

// Append appends the bytes of the descriptor to b. The error names a field that does not fit.
func (d *Descriptor) Append(b []byte) ([]byte, error) {
	if d.ID > MaxID {
		return b, fmt.Errorf("task: id %#x: the largest is %#x", uint32(d.ID), MaxID)
	}
	if len(d.Operands) > MaxOperands {
		return b, fmt.Errorf("task: %d operands: a descriptor has at most %d", len(d.Operands), MaxOperands)
	}
	b = append(b, version, flag(d.Immediate))
	b = binary.BigEndian.AppendUint16(b, uint16(d.Kernel))
	b = binary.BigEndian.AppendUint32(b, uint32(d.ID))
	b = append(b, byte(len(d.Operands)), 0, 0, 0, 0, 0, 0, 0)
	b = d.Result.append(b)
	for i := range d.Operands {
		b = d.Operands[i].append(b)
	}
	return b, nil
}

func (o *Operand) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, o.VA)
	b = binary.BigEndian.AppendUint32(b, o.Length)
	b = binary.BigEndian.AppendUint32(b, o.Key)
	b = append(b, byte(o.Type), flag(o.Origin), 0, 0)
	for _, extent := range o.Shape {
		b = binary.BigEndian.AppendUint32(b, extent)
	}
	return b
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// Parse reads a descriptor that has all bytes of b, such as the payload of a SEND. The error is
// an *Error of StatusDescriptor; the descriptor has its ID only then, for the answer, as far as
// there is one.
func Parse(b []byte) (Descriptor, error) {
	n, err := length(b)
	if err != nil {
		return Descriptor{ID: idOf(b)}, err
	}
	if n != len(b) {
		return Descriptor{ID: idOf(b)}, fail(StatusDescriptor, "%d bytes: with %d operands it has %d", len(b), b[8], n)
	}
	return parse(b)
}

// ParseSlot reads the descriptor at the start of a slot, as Parse does.
func ParseSlot(slot *[SlotLen]byte) (Descriptor, error) {
	n, err := length(slot[:])
	if err != nil {
		return Descriptor{ID: idOf(slot[:])}, err
	}
	return parse(slot[:n])
}

// idOf is the task id in the bytes of a descriptor.
func idOf(b []byte) ID {
	if len(b) < 8 {
		return 0
	}
	return ID(binary.BigEndian.Uint32(b[4:])) & MaxID
}

// length is the length that the header of a descriptor demands.
func length(b []byte) (int, error) {
	if len(b) < headerLen {
		return 0, fail(StatusDescriptor, "%d bytes: its header has %d", len(b), headerLen)
	}
	if b[0] != version {
		return 0, fail(StatusDescriptor, "version %d: only %d is known", b[0], version)
	}
	if b[8] > MaxOperands {
		return 0, fail(StatusDescriptor, "%d operands: the limit is %d", b[8], MaxOperands)
	}
	return headerLen + operandLen*(1+int(b[8])), nil
}

func parse(b []byte) (Descriptor, error) {
	word := binary.BigEndian.Uint64
	if b[1]&^1 != 0 || b[4] != 0 || word(b[8:])<<8 != 0 {
		return Descriptor{ID: idOf(b)}, fail(StatusDescriptor, "reserved bits of the header are not 0: %x", b[:headerLen])
	}
	d := Descriptor{
		Kernel: KernelID(binary.BigEndian.Uint16(b[2:])), ID: ID(binary.BigEndian.Uint32(b[4:])), Immediate: b[1] != 0,
		Operands: make([]Operand, b[8]),
	}
	if err := d.Result.parse(b[headerLen:]); err != nil {
		return Descriptor{ID: idOf(b)}, fail(StatusDescriptor, "result: %v", err)
	}
	for i := range d.Operands {
		if err := d.Operands[i].parse(b[headerLen+operandLen*(1+i):]); err != nil {
			return Descriptor{ID: idOf(b)}, fail(StatusDescriptor, "operand %d: %v", i, err)
		}
	}
	return d, nil
}

func (o *Operand) parse(b []byte) error {
	word := binary.BigEndian.Uint32
	if b[17]&^1 != 0 || b[18] != 0 || b[19] != 0 {
		return fmt.Errorf("reserved bits are not 0: %x", b[16:20])
	}
	*o = Operand{
		VA: binary.BigEndian.Uint64(b), Length: word(b[8:]), Key: word(b[12:]), Type: Type(b[16]), Origin: b[17] != 0,
		Shape: Shape{word(b[20:]), word(b[24:]), word(b[28:])},
	}
	return o.check()
}

// check compares length, type and shape.
func (o *Operand) check() error {
	if !o.Type.Valid() {
		return fmt.Errorf("%s does not exist: use %d (%s) to %d (%s)", o.Type, Int8, Int8, Float64, Float64)
	}
	n, ok := o.Shape.bytes(o.Type)
	if !ok {
		return fmt.Errorf("%s elements in %s: extents are 1 or more, unused ones are 0 and last, and all have less than 2^32 bytes", o.Type, o.Shape)
	}
	if n != o.Length {
		return fmt.Errorf("length %d: %s %s have %d bytes", o.Length, o.Shape, o.Type, n)
	}
	if o.VA > math.MaxUint64-uint64(n-1) {
		return fmt.Errorf("%d bytes at %#x go beyond the last address", n, o.VA)
	}
	return nil
}

// check judges a descriptor that was not parsed.
func (d *Descriptor) check() *Error {
	if d.ID > MaxID {
		return fail(StatusDescriptor, "id %#x: the largest is %#x", uint32(d.ID), MaxID)
	}
	if len(d.Operands) > MaxOperands {
		return fail(StatusDescriptor, "%d operands: the limit is %d", len(d.Operands), MaxOperands)
	}
	if err := d.Result.check(); err != nil {
		return fail(StatusDescriptor, "result: %v", err)
	}
	for i := range d.Operands {
		if err := d.Operands[i].check(); err != nil {
			return fail(StatusDescriptor, "operand %d: %v", i, err)
		}
	}
	return nil
}

// total is the number of bytes of operands and result.
func (d *Descriptor) total() uint64 {
	n := uint64(d.Result.Length)
	for i := range d.Operands {
		n += uint64(d.Operands[i].Length)
	}
	return n
}
