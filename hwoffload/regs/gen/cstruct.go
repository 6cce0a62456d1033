// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/softroce/softroce-xdp/hwoffload/regs/layout"
)

// cStructs are the C structures of headers, by name.
type cStructs struct {
	members map[string][]member
	macros  map[string]uint64
	// Resets has reset values other than 0, by structure and offset of the member.
	Resets map[string]map[uint64]uint64
}

// member is a member of a structure. A type that is no integer is the name of a structure.
type member struct {
	name, typ string
	count     uint64 // 0 = no array
	text      string
}

// leaf is an integer member at its place in the outermost structure.
type leaf struct {
	name          string
	offset, size  uint64
	stride, count uint64
	signed        bool
	text          string
}

var (
	structText = regexp.MustCompile(`(?s)\nstruct (\w+) \{\n(.*?)\n\};`)
	memberLine = regexp.MustCompile(`^\s*(?:struct )?(\w+) (\w+)(?:\[(\w+)\])?;(?:\s*/\* (.*) \*/)?$`)
	comment    = regexp.MustCompile(`^\s*/\*.*\*/$`)
	macro      = regexp.MustCompile(`(?m)^#define (\w+) (\d+)$`)
	intSizes   = map[string]uint64{"__u8": 1, "__u16": 2, "__u32": 4, "__u64": 8, "__s64": 8}
)

// readStructs reads the structures of C headers in the style of bpf/lib/abi.h: one member a
// line, its comment on the same line.
func readStructs(paths ...string) (cStructs, error) {
	s := cStructs{members: map[string][]member{}, macros: map[string]uint64{}, Resets: map[string]map[uint64]uint64{}}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return s, err
		}
		for _, m := range macro.FindAllStringSubmatch(string(text), -1) {
			s.macros[m[1]], _ = strconv.ParseUint(m[2], 10, 64)
		}
		for _, m := range structText.FindAllStringSubmatch(string(text), -1) {
			s.members[m[1]], err = s.parse(m[2])
			if err != nil {
				return s, fmt.Errorf("%s: struct %s: %w", path, m[1], err)
			}
		}
	}
	return s, nil
}

func (s *cStructs) parse(body string) (members []member, err error) {
	for line := range strings.SplitSeq(body, "\n") {
		if strings.TrimSpace(line) == "" || comment.MatchString(line) {
			continue
		}
		m := memberLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("cannot read %q: write one member a line", line)
		}
		x := member{typ: m[1], name: m[2], text: m[4]}
		if m[3] != "" {
			n, macro := s.macros[m[3]]
			if !macro {
				if n, err = strconv.ParseUint(m[3], 10, 64); err != nil {
					return nil, fmt.Errorf("the array length %s of %s is neither a number nor a macro", m[3], m[2])
				}
			}
			x.count = n
		}
		members = append(members, x)
	}
	return members, nil
}

// leaves lays a structure out as a C compiler does, and returns its integers, its size and
// its alignment.
func (s *cStructs) leaves(name string) (all []leaf, size, align uint64, err error) {
	members, known := s.members[name]
	if !known {
		return nil, 0, 0, fmt.Errorf("there is no struct %s in the headers", name)
	}
	align = 1
	for _, m := range members {
		inner, n, a := []leaf{{text: m.text, count: 1, signed: m.typ == "__s64"}}, intSizes[m.typ], intSizes[m.typ]
		inner[0].size = n
		nested := n == 0
		if nested {
			if inner, n, a, err = s.leaves(m.typ); err != nil {
				return nil, 0, 0, err
			}
		}
		size = (size + a - 1) / a * a
		align = max(align, a)
		for _, l := range inner {
			l.offset += size
			if nested {
				l.name = m.name + "_" + l.name
			} else {
				l.name = m.name
			}
			if m.count > 0 && l.count > 1 {
				return nil, 0, 0, fmt.Errorf("struct %s: %s is an array of arrays", name, m.name)
			}
			if m.count > 0 {
				l.count, l.stride = m.count, n
			}
			all = append(all, l)
		}
		size += n * max(m.count, 1)
	}
	return all, (size + align - 1) / align * align, align, nil
}

// addStruct makes registers of the members of a structure. The structure lies in the block as
// it lies in memory of a little-endian machine. Members of less than 32 bits are fields of one
// register, which has the name of the first with _word behind it.
func (s *source) addStruct(b *layout.Block, f *blockFile, structs cStructs) {
	line := lineOf(s.root, "struct")
	access, err := layout.ParseAccess(f.Access)
	if err != nil {
		s.errorf(lineOf(s.root, "access"), "%v", err)
		return
	}
	all, size, _, err := structs.leaves(f.Struct)
	if err != nil {
		s.errorf(line, "%v", err)
		return
	}
	if size > b.Stride {
		s.errorf(line, "struct %s has %d bytes, an element of block %s %d: raise the stride", f.Struct, size, b.Name, b.Stride)
		return
	}
	for _, l := range all {
		if strings.HasPrefix(l.name[strings.LastIndexByte(l.name, '_')+1:], "reserved") {
			continue
		}
		x := layout.Field{
			Name: l.name, Bits: uint(l.size * 8), Access: access, Signed: l.signed,
			Reset: structs.Resets[f.Struct][l.offset], Unit: unitOf(l.name), Text: l.text,
		}
		if l.size >= 4 {
			b.Registers = append(b.Registers, layout.Register{Name: l.name, Offset: l.offset, Bits: x.Bits, Stride: l.stride, Count: l.count, Text: l.text, Fields: []layout.Field{x}})
			continue
		}
		if l.count > 1 {
			s.errorf(line, "struct %s: %s is an array of less than 32 bits", f.Struct, l.name)
			continue
		}
		x.LSB = uint(l.offset % 4 * 8)
		word := l.offset &^ 3
		last := len(b.Registers) - 1
		if last < 0 || b.Registers[last].Offset != word {
			b.Registers = append(b.Registers, layout.Register{Name: l.name + "_word", Offset: word, Bits: 32, Count: 1})
			last++
		}
		b.Registers[last].Fields = append(b.Registers[last].Fields, x)
	}
}

// unitOf is the unit that the end of a member's name says.
func unitOf(name string) string {
	for _, u := range [...][2]string{{"_ns", "ns"}, {"_bps", "bit/s"}, {"_bytes", "bytes"}, {"_packets", "packets"}, {"_q10", "1/1024"}, {"_q20", "1/2^20"}} {
		if strings.HasSuffix(name, u[0]) {
			return u[1]
		}
	}
	return ""
}
