// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/softroce/softroce-xdp/hwoffload/regs/layout"
)

// camel turns tx_ns into TxNs.
func camel(name string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(name, "_") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// upper joins names to a constant's name.
func upper(names ...string) string { return strings.ToUpper(strings.Join(names, "_")) }

// eachField calls do for all fields, with the name of the constants that belong to it.
func eachField(blocks []layout.Block, do func(name string, b *layout.Block, r *layout.Register, f *layout.Field)) {
	for i := range blocks {
		b := &blocks[i]
		for j := range b.Registers {
			r := &b.Registers[j]
			for k := range r.Fields {
				f := &r.Fields[k]
				name := upper(b.Name, r.Name, f.Name)
				if r.Single() {
					name = upper(b.Name, r.Name)
				}
				do(name, b, r, f)
			}
		}
	}
}

// whole reports whether a field is all of its register.
func whole(r *layout.Register, f *layout.Field) bool { return f.Bits == r.Bits }

// place describes access, bits and address of a field.
func place(r *layout.Register, f *layout.Field) string {
	bits := "all bits"
	if !whole(r, f) {
		bits = fmt.Sprintf("bits %d to %d", f.LSB, f.LSB+f.Bits-1)
		if f.Bits == 1 {
			bits = fmt.Sprintf("bit %d", f.LSB)
		}
	}
	return fmt.Sprintf("%s, %s", f.Access, bits)
}

// sentence begins a text with a capital and ends it with a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

// meaning is the text of a field with its unit.
func meaning(f *layout.Field) string {
	if f.Unit == "" {
		return f.Text
	}
	return f.Text + " [" + f.Unit + "]"
}
