// SPDX-License-Identifier: Apache-2.0

package clib

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

const header = "src/softroce_proto.h"

// The header is that of the Go sources. UPDATE=1 writes it.
func TestHeader(t *testing.T) {
	w := &writer{proto: readSource(t, "../rdma/proto", "*.go"), wqe: readSource(t, "../wqe", "*.go"), written: map[string]bool{}}
	w.raw(headerTop)
	w.part("Messages of the control socket (package rocev2/rdma/proto)", w.proto.constants(), protoName)
	w.statuses()
	w.raw("/* The structures of messages. A body is at offset 8 of its message; in a batch it may be at any multiple of 4. */\n\n")
	all := w.proto.structures()
	for _, s := range all {
		w.structure(s, all)
	}
	w.part("Numbers in messages and entries (package rocev2/verbs)", readSource(t, "../verbs", "*.go").constants(), verbsName)
	w.part("Events of the communication manager (package rocev2/cm)", readSource(t, "../cm", "event.go").constants(), kindName)
	w.part("Path MTU (package rocev2)", readSource(t, "..", "pmtu.go").constants(), func(v value) string { return upper(v.name) })
	w.part("Rings, doorbell and status page (package rocev2/ring)", readSource(t, "../ring", "*.go").constants(), ringName)
	w.raw(headerRings)
	w.part("Entries of queues (package rocev2/wqe)", w.wqe.constants(), wqeName)
	w.raw(headerEntries)
	for _, l := range layouts {
		w.layout(l)
	}
	fmt.Fprintf(&w.b, "#define SOFTROCE_CQE_OWNER_AT %d /* the 8 bytes of a completion that have the bit owner */\n", wqe.OwnerAt)
	fmt.Fprintf(&w.b, "#define SOFTROCE_CQE_OWNER_MASK %#xull\n\n#endif\n", wqe.OwnerMask)
	testkit.Golden(t, header, w.b.String())
}

func upper(name string) string { return strings.ToUpper(snake(name)) }

// protoName is the C name of a constant of package proto, "" for none.
func protoName(v value) string {
	if v.typ != "Type" {
		return upper(v.name)
	}
	if v.name == "TCM" { // the first of a list
		return ""
	}
	if name, ok := strings.CutPrefix(v.name, "T"); ok {
		return "MSG_" + upper(name)
	}
	return "MSG_" + upper(v.name)
}

// verbsName is the C name of a constant of package verbs.
func verbsName(v value) string {
	prefix := map[string][2]string{ // in Go and in C
		"QPType": {"", "QPT_"}, "State": {"State", "STATE_"}, "AttrMask": {"Mask", "MASK_"}, "Access": {"Access", "ACCESS_"},
		"EventType": {"Event", "EVENT_"}, "Op": {"Op", "OP_"}, "Flags": {"", "FLAG_"}, "Status": {"Status", "WC_"},
	}
	if p, ok := prefix[v.typ]; ok {
		return p[1] + upper(strings.TrimPrefix(v.name, p[0]))
	}
	if v.name == "GRHLen" {
		return upper(v.name)
	}
	return ""
}

// kindName is the C name of a kind of event of package cm.
func kindName(v value) string {
	if v.typ == "Kind" {
		return "CM_" + upper(v.name)
	}
	return ""
}

// ringName is the C name of a constant of package ring: the words of a ring have the prefix RING_.
func ringName(v value) string {
	for _, other := range []string{"ArmedS", "ArmedAny", "Doorbell", "StatusPage", "Queues"} {
		if strings.HasPrefix(v.name, other) {
			return upper(v.name)
		}
	}
	return "RING_" + upper(v.name)
}

// wqeName is the C name of a constant of package wqe. The values of fields are those of package verbs.
func wqeName(v value) string {
	if strings.HasSuffix(v.name, "Bytes") {
		return upper(v.name)
	}
	return ""
}

// writer writes the header.
type writer struct {
	b          strings.Builder
	proto, wqe *source
	written    map[string]bool // structures that were written
}

func (w *writer) raw(text string) { w.b.WriteString(text) }

// comment writes a comment of Go as one of C.
func (w *writer) comment(text string) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	switch {
	case lines[0] == "":
	case len(lines) == 1:
		fmt.Fprintf(&w.b, "/* %s */\n", lines[0])
	default:
		text := "/*\n * " + strings.Join(lines, "\n * ") + "\n */\n"
		w.raw(strings.ReplaceAll(text, " * \n", " *\n"))
	}
}

// line writes a line with a comment behind it.
func (w *writer) line(text, comment string) {
	if comment = strings.Join(strings.Fields(comment), " "); comment != "" {
		text += " /* " + comment + " */"
	}
	w.raw(text + "\n")
}

// part writes the constants of a package. name returns "" for what C does not need.
func (w *writer) part(title string, groups []group, name func(value) string) {
	fmt.Fprintf(&w.b, "/* ---- %s ---- */\n\n", title)
	for _, g := range groups {
		values := slices.DeleteFunc(slices.Clone(g.values), func(v value) bool { return name(v) == "" })
		if len(values) == 0 {
			continue
		}
		w.comment(g.text)
		for _, v := range values {
			w.comment(v.doc)
			w.line(fmt.Sprintf("#define SOFTROCE_%s %s", name(v), literal(v)), cmp.Or(v.comment, bodies(v)))
		}
		w.raw("\n")
	}
}

// literal is the value of a constant in C.
func literal(v value) string {
	if v.value.Kind() != constant.Int {
		return v.value.ExactString()
	}
	n, _ := constant.Uint64Val(v.value)
	switch {
	case n > math.MaxInt32:
		return fmt.Sprintf("%#xull", n)
	case n > 255 && slices.Contains([]string{"Type", "AttrMask", "Access", "Flags"}, v.typ) || v.name == "Magic":
		return fmt.Sprintf("%#x", n)
	}
	return fmt.Sprint(n)
}

// bodies names the structures of a message.
func bodies(v value) string {
	if v.typ != "Type" {
		return ""
	}
	n, _ := constant.Uint64Val(v.value)
	request, reply, ok := proto.Bodies(proto.Type(n))
	if !ok {
		return ""
	}
	of := func(body any) string {
		if body == nil {
			return "nothing"
		}
		return "softroce_" + snake(reflect.TypeOf(body).Elem().Name())
	}
	return of(request) + "; reply: " + of(reply)
}

// statuses writes the statuses that stand for an error of another package.
func (w *writer) statuses() {
	names := map[proto.Status]string{}
	w.proto.each(func(d ast.Decl) {
		ast.Inspect(d, func(n ast.Node) bool {
			entry, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			key := w.proto.info.Types[entry.Key]
			err, foreign := entry.Value.(*ast.SelectorExpr)
			named, _ := key.Type.(*types.Named)
			if !foreign || key.Value == nil || named == nil || named.Obj().Name() != "Status" {
				return true
			}
			if name, ok := entry.Key.(*ast.Ident); ok && name.IsExported() { // has its own line
				return true
			}
			s, _ := constant.Uint64Val(key.Value)
			prefix := ""
			if pkg := err.X.(*ast.Ident).Name; pkg != "verbs" {
				prefix = strings.ToUpper(pkg) + "_"
			}
			names[proto.Status(s)] = prefix + upper(strings.TrimPrefix(err.Sel.Name, "Err"))
			return true
		})
	})
	w.comment("Statuses of errors of the packages verbs, cm and mad.")
	for _, s := range slices.Sorted(maps.Keys(names)) {
		w.line(fmt.Sprintf("#define SOFTROCE_STATUS_%s %d", names[s], s), (&proto.Error{Status: s}).Unwrap().Error())
	}
	w.raw("\n")
}

// structure writes a structure, behind those that it has as members.
func (w *writer) structure(s structure, all []structure) {
	if w.written[s.name] {
		return
	}
	w.written[s.name] = true
	for f := range s.typ.Fields() {
		for _, inner := range all {
			if element(f.Type()) == inner.name {
				w.structure(inner, all)
			}
		}
	}
	w.comment(w.proto.docs[s.name])
	fmt.Fprintf(&w.b, "struct softroce_%s {\n", snake(s.name))
	for i, name := range fieldNames(s.typ) {
		typ, array := cType(s.typ.Field(i).Type())
		w.line(fmt.Sprintf("\t%s %s%s;", typ, name, array), s.comments[i])
	}
	size := types.SizesFor("gc", "amd64").Sizeof(s.typ)
	fmt.Fprintf(&w.b, "};\n_Static_assert(sizeof(struct softroce_%s) == %d, \"size of the message\");\n\n", snake(s.name), size)
}

// fieldNames are the names of the fields in C. Room is reserved0, reserved1 and so on.
func fieldNames(t *types.Struct) (names []string) {
	reserved := 0
	for f := range t.Fields() {
		name := snake(f.Name())
		if f.Name() == "_" {
			name = fmt.Sprintf("reserved%d", reserved)
			reserved++
		}
		names = append(names, name)
	}
	return names
}

// element is the name of the structure of a field, or of the elements of an array.
func element(t types.Type) string {
	if a, ok := t.(*types.Array); ok {
		return element(a.Elem())
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj().Name()
	}
	return ""
}

// cType is a type in C, and the length of an array.
func cType(t types.Type) (typ, array string) {
	switch u := t.Underlying().(type) {
	case *types.Array:
		typ, array = cType(u.Elem())
		return typ, fmt.Sprintf("[%d]%s", u.Len(), array)
	case *types.Struct:
		return "struct softroce_" + snake(element(t)), ""
	default:
		return types.Typ[u.(*types.Basic).Kind()].Name() + "_t", "" // not byte
	}
}

const headerTop = `/* SPDX-License-Identifier: Apache-2.0 */
/* Code generated by UPDATE=1 go test ./rocev2/clib -run Header; DO NOT EDIT. */

/*
 * The protocol between a process and the device server: messages, rings and entries, as docs/run/device.md describes
 * them. All numbers of messages and entries are little-endian, so this header is for machines of that byte order.
 */
#ifndef SOFTROCE_PROTO_H
#define SOFTROCE_PROTO_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "softroce_proto.h: the messages are little-endian, and this machine is not"
#endif

`

const headerRings = `/* The bytes of a ring, a multiple of a cache line. The caller has checked that the shape is within the limits. */
static inline size_t softroce_ring_bytes(struct softroce_shape shape)
{
	return SOFTROCE_RING_ENTRIES_AT + (((size_t)shape.entries * shape.entry_bytes + 63) & ~(size_t)63);
}

/* Whether a shape is one that a ring can have: a power of two of entries, each of a multiple of 16 bytes. */
static inline int softroce_shape_valid(struct softroce_shape shape)
{
	return shape.entries != 0 && shape.entries <= SOFTROCE_RING_MAX_ENTRIES && (shape.entries & (shape.entries - 1)) == 0 &&
	       shape.entry_bytes != 0 && shape.entry_bytes <= SOFTROCE_RING_MAX_ENTRY_BYTES && shape.entry_bytes % 16 == 0;
}

`
