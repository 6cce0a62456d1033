// SPDX-License-Identifier: Apache-2.0

// Package regs has the registers of the card as typed accessors, and as the table Blocks. Internal to
// this project. It is generated from the YAML files of this folder, which are the one definition of
// the registers: the SystemVerilog package of hwoffload/rtl and docs/card/card-registers.md come from
// them as well. The files in folder queue define the entries of queues (Wqe, Cqe and others), which
// lie in memory.
//
// An accessor reads or writes its whole register. A register with several fields is a type of
// its own, with a method for each field; to change one field, a caller reads the register,
// changes the value and writes it.
package regs

//go:generate go run ./gen

import "fmt"

// Bus accesses registers by their addresses in bytes. An address is a multiple of the width
// of the access. hwoffload.Device says how failures are reported.
type Bus interface {
	R32(addr uint64) uint32
	W32(addr uint64, v uint32)
	R64(addr uint64) uint64
	W64(addr uint64, v uint64)
}

// element returns the distance of element i of an array from its element 0. An index out of
// range is a mistake of the program.
func element(i int, count, stride uint64) uint64 {
	if uint64(i) >= count {
		panic(fmt.Sprintf("regs: there is no element %d: the last is %d", i, count-1))
	}
	return uint64(i) * stride
}

// bit is the value of a field of one bit.
func bit(on bool) uint64 {
	if on {
		return 1
	}
	return 0
}
