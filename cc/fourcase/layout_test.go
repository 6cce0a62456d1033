// SPDX-License-Identifier: Apache-2.0

package fourcase

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

type cField struct {
	name, typ    string
	offset, size uintptr
}

var (
	cComment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	cMember  = regexp.MustCompile(`(__[us](?:8|16|32|64))\s+(\w+)\s*;`)
	cSizes   = map[string]uintptr{
		"__u8": 1, "__s8": 1, "__u16": 2, "__s16": 2, "__u32": 4, "__s32": 4, "__u64": 8, "__s64": 8,
	}
	goTypes = map[reflect.Kind]string{
		reflect.Uint8: "__u8", reflect.Uint16: "__u16", reflect.Uint32: "__u32", reflect.Uint64: "__u64", reflect.Int64: "__s64",
	}
)

// parseC lays out one struct of a header as a C compiler does. It returns the
// fields and the size, and fails on a gap or on a member it cannot read.
func parseC(t *testing.T, header, name string) ([]cField, uintptr) {
	t.Helper()
	text := cComment.ReplaceAllString(header, "")
	_, body, found := strings.Cut(text, "struct "+name+" {")
	if !found {
		t.Fatalf("policy.h has no struct %s", name)
	}
	body, _, _ = strings.Cut(body, "}")
	if rest := strings.TrimSpace(cMember.ReplaceAllString(body, "")); rest != "" {
		t.Fatalf("struct %s: cannot read %q", name, rest)
	}
	var fields []cField
	var at, align uintptr
	for _, m := range cMember.FindAllStringSubmatch(body, -1) {
		size := cSizes[m[1]]
		if at%size != 0 {
			t.Fatalf("struct %s: gap before %s at %d", name, m[2], at)
		}
		fields = append(fields, cField{name: m[2], typ: m[1], offset: at, size: size})
		at += size
		align = max(align, size)
	}
	if at%align != 0 {
		t.Fatalf("struct %s: %d bytes need padding to %d", name, at, align)
	}
	return fields, at
}

// goName turns base_tx_ns into BaseTxNs.
func goName(c string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(c, "_") {
		if part == "ce" {
			b.WriteString("CE")
			continue
		}
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

func TestLayoutMatchesHeader(t *testing.T) {
	header, err := os.ReadFile("../../bpf/lib/policy.h")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		typ  reflect.Type
		size uintptr // 0 = any multiple of 8
	}{
		{"policy_regs", reflect.TypeFor[Regs](), 192},
		{"policy_params", reflect.TypeFor[Params](), 0},
	} {
		fields, size := parseC(t, string(header), c.name)
		if c.size != 0 && size != c.size {
			t.Errorf("struct %s: %d bytes, want %d", c.name, size, c.size)
		}
		if size%8 != 0 || size != c.typ.Size() {
			t.Errorf("struct %s: %d bytes in C, %d in Go, want equal and a multiple of 8", c.name, size, c.typ.Size())
		}
		if len(fields) != c.typ.NumField() {
			t.Fatalf("struct %s: %d fields in C, %d in Go", c.name, len(fields), c.typ.NumField())
		}
		for i, f := range fields {
			g := c.typ.Field(i)
			if g.Name != goName(f.name) || g.Offset != f.offset || goTypes[g.Type.Kind()] != f.typ {
				t.Errorf("struct %s field %d: C has %s %s at %d, Go has %s %s at %d",
					c.name, i, f.typ, f.name, f.offset, g.Type, g.Name, g.Offset)
			}
		}
	}
}
