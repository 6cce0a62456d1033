// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"go/format"
	"strings"

	"github.com/softroce/softroce-xdp/hwoffload/regs/layout"
)

// eachRecordField calls do for all fields of the layouts, with the name of their constants.
func eachRecordField(records []layout.Record, do func(name string, first bool, r *layout.Record, w *layout.Register, f *layout.Field)) {
	for i := range records {
		r := &records[i]
		for j := range r.Words {
			w := &r.Words[j]
			for k := range w.Fields {
				do(upper(r.Name, w.Fields[k].Name), j == 0 && k == 0, r, w, &w.Fields[k])
			}
		}
	}
}

// cardOnly reports whether only cards have a layout. The others are those of the software NIC too,
// in package wqe.
func cardOnly(r layout.Record) bool { return r.Name == "address_handle" }

// goRecords writes a type of bytes for each layout, with methods for its fields.
func goRecords(head string, records []layout.Record) ([]byte, error) {
	var w bytes.Buffer
	fmt.Fprintf(&w, "%s\nimport \"encoding/binary\"\n", head)
	for i := range records {
		r := &records[i]
		typ := camel(r.Name)
		fmt.Fprintf(&w, "\n// %sBytes is the length of a %s.\nconst %sBytes = %d\n", typ, typ, typ, r.Bytes)
		fmt.Fprintf(&w, "\n// %s views bytes in the memory of the card or of a queue as layout %s. %s\n//\n// Its methods panic if it has fewer than %sBytes.\ntype %s []byte\n",
			typ, r.Name, r.Text, typ, typ)
		for j := range r.Words {
			for k := range r.Words[j].Fields {
				goRecordField(&w, typ, &r.Words[j], &r.Words[j].Fields[k])
			}
		}
	}
	return format.Source(w.Bytes())
}

// goRecordField writes getter and setter of a field, and its values as constants.
func goRecordField(w *bytes.Buffer, typ string, word *layout.Register, f *layout.Field) {
	name := camel(f.Name)
	if len(f.Values) > 0 {
		fmt.Fprintf(w, "\n// Values of field %s of layout %s.\nconst (\n", f.Name, strings.ToLower(typ))
		for _, v := range f.Values {
			fmt.Fprintf(w, "%s%s%s = %d\n", typ, name, camel(v.Name), v.Value)
		}
		fmt.Fprint(w, ")\n")
	}
	low := ^uint64(0) >> (64 - f.Bits)
	result := "uint64"
	if f.Bits <= 32 {
		result = "uint32"
	}
	at := fmt.Sprintf("b[%#x:%#x]", word.Offset, word.Offset+8)
	get := fmt.Sprintf("%s(binary.LittleEndian.Uint64(%s) >> %d & %#x)", result, at, f.LSB, low)
	value := fmt.Sprintf("uint64(x)&%#x<<%d", low, f.LSB)
	if f.Bits == 1 {
		result, value = "bool", fmt.Sprintf("bit(x)<<%d", f.LSB)
		get = fmt.Sprintf("binary.LittleEndian.Uint64(%s)>>%d&1 != 0", at, f.LSB)
	}
	set := fmt.Sprintf("binary.LittleEndian.PutUint64(%s, binary.LittleEndian.Uint64(%s)&^(%#x<<%d) | %s)", at, at, low, f.LSB, value)
	if whole(word, f) {
		get = fmt.Sprintf("binary.LittleEndian.Uint64(%s)", at)
		set = fmt.Sprintf("binary.LittleEndian.PutUint64(%s, x)", at)
	}
	text := fmt.Sprintf("%s %s of the word at %#x.", sentence(meaning(f)), bitsText(word, f), word.Offset)
	fmt.Fprintf(w, "\n// %s returns field %s. %s\nfunc (b %s) %s() %s { return %s }\n", name, f.Name, text, typ, name, result, get)
	fmt.Fprintf(w, "\n// Set%s sets field %s and keeps all others.\nfunc (b %s) Set%s(x %s) { %s }\n", name, f.Name, typ, name, result, set)
}

// bitsText describes the bits of a field in a word, as the start of a sentence.
func bitsText(word *layout.Register, f *layout.Field) string {
	text := place(word, f)
	text = text[strings.Index(text, ", ")+2:]
	return strings.ToUpper(text[:1]) + text[1:]
}

// svRecords writes lengths, offsets of words, bits and values of layouts in memory as parameters.
func svRecords(w *bytes.Buffer, records []layout.Record) {
	eachRecordField(records, func(name string, first bool, r *layout.Record, word *layout.Register, f *layout.Field) {
		param := func(name string, value uint64) {
			fmt.Fprintf(w, "  localparam logic [31:0] %s = 32'h%x;\n", name, value)
		}
		if first {
			fmt.Fprintf(w, "\n  // Layout %s\n", r.Name)
			param("LAYOUT_"+upper(r.Name, "bytes"), r.Bytes)
		}
		param("LAYOUT_"+name+"_OFS", word.Offset)
		param("LAYOUT_"+name+"_LSB", uint64(f.LSB))
		param("LAYOUT_"+name+"_BITS", uint64(f.Bits))
		for _, v := range f.Values {
			param("LAYOUT_"+name+"_IS_"+upper(v.Name), v.Value)
		}
	})
}

// pageRecords writes the part of the reference page about layouts.
func pageRecords(w *bytes.Buffer, records []layout.Record) {
	fmt.Fprint(w, `
# Layouts in memory

Entries of queues lie in the DDR of the card.
Words have 64 bits and are little-endian.
Reserved bits are 0.
`)
	for i := range records {
		r := &records[i]
		fmt.Fprintf(w, "\n## %s\n\n%s\nIts length is %d bytes.\n\n", r.Name, strings.ReplaceAll(r.Text, ". ", ".\n"), r.Bytes)
		fmt.Fprint(w, "| offset | word | field | bits | unit | meaning |\n|---|---|---|---|---|---|\n")
		for j := range r.Words {
			pageWord(w, &r.Words[j])
		}
	}
}

func pageWord(w *bytes.Buffer, word *layout.Register) {
	offset, name := fmt.Sprintf("`0x%02x`", word.Offset), "`"+word.Name+"`"
	for i := range word.Fields {
		f := &word.Fields[i]
		field, text := "", f.Text
		if !word.Single() {
			field = "`" + f.Name + "`"
		}
		for k, v := range f.Values {
			sep := ", "
			if k == 0 {
				sep = ": "
			}
			text += fmt.Sprintf("%s%d %s", sep, v.Value, v.Name)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", offset, name, field, bitRange(f), f.Unit, text)
		offset, name = "", ""
	}
}
