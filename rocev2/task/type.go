// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"math/bits"
	"strings"
)

// Type is the type of the elements of an operand. In memory, elements follow each other without
// gaps and are little-endian; floating point is IEEE 754.
type Type uint8

// The types. The values are those of the descriptor.
const (
	Int8 Type = 1 + iota
	Int16
	Int32
	Int64
	Uint8
	Uint16
	Uint32
	Uint64
	Float32
	Float64
)

var typeInfo = [...]struct {
	name string
	size uint32
}{
	Int8: {"int8", 1}, Int16: {"int16", 2}, Int32: {"int32", 4}, Int64: {"int64", 8},
	Uint8: {"uint8", 1}, Uint16: {"uint16", 2}, Uint32: {"uint32", 4}, Uint64: {"uint64", 8},
	Float32: {"float32", 4}, Float64: {"float64", 8},
}

// Valid reports whether the type exists.
func (t Type) Valid() bool { return t >= Int8 && t <= Float64 }

// Size is the number of bytes of an element; 0 if the type does not exist.
func (t Type) Size() uint32 {
	if !t.Valid() {
		return 0
	}
	return typeInfo[t].size
}

func (t Type) String() string {
	if !t.Valid() {
		return fmt.Sprintf("type %d", uint8(t))
	}
	return typeInfo[t].name
}

// Wide is the type of sums of elements: 64 bits of the same kind.
func (t Type) Wide() Type {
	switch t {
	case Int8, Int16, Int32, Int64:
		return Int64
	case Uint8, Uint16, Uint32, Uint64:
		return Uint64
	}
	return Float64
}

// Shape has the extents of an operand, in elements. Extents that are not used are 0 and come
// last: Shape{5} is a vector, Shape{2, 3} a matrix of 2 rows and 3 columns. The last index
// changes fastest (row-major).
type Shape [3]uint32

// Dims is the number of extents. It is 0 if the shape is not valid.
func (s Shape) Dims() int {
	n := 0
	for n < len(s) && s[n] != 0 {
		n++
	}
	for _, rest := range s[n:] {
		if rest != 0 {
			return 0
		}
	}
	return n
}

// bytes is the size of the elements; false if the shape is not valid or the size needs more
// than 32 bits.
func (s Shape) bytes(t Type) (uint32, bool) {
	if s.Dims() == 0 || !t.Valid() {
		return 0, false
	}
	n := uint64(t.Size())
	for _, extent := range s[:s.Dims()] {
		hi, lo := bits.Mul64(n, uint64(extent))
		if hi != 0 || lo>>32 != 0 {
			return 0, false
		}
		n = lo
	}
	return uint32(n), true
}

// String is for example "2x3".
func (s Shape) String() string {
	if s.Dims() == 0 {
		return fmt.Sprintf("invalid shape %d", [3]uint32(s))
	}
	var parts []string
	for _, extent := range s[:s.Dims()] {
		parts = append(parts, fmt.Sprint(extent))
	}
	return strings.Join(parts, "x")
}
