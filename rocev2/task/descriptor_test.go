// SPDX-License-Identifier: Apache-2.0

package task

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

// golden is a descriptor with each field different from the others, and its bytes.
var golden = Descriptor{
	Kernel: 0x1234, ID: 0xabcdef, Immediate: true,
	Result: Operand{VA: 0x1112131415161718, Length: 24, Key: 0x21222324, Type: Float32, Shape: Shape{2, 3}, Origin: true},
	Operands: []Operand{
		{VA: 0x3132333435363738, Length: 16, Key: 0x41424344, Type: Int64, Shape: Shape{2}},
		{VA: 0x5152535455565758, Length: 6, Key: 0x61626364, Type: Uint8, Shape: Shape{1, 2, 3}, Origin: true},
	},
}

const goldenBytes = `
	01 01 1234 00 abcdef 02 00000000000000
	1112131415161718 00000018 21222324 09 01 0000 00000002 00000003 00000000
	3132333435363738 00000010 41424344 04 00 0000 00000002 00000000 00000000
	5152535455565758 00000006 61626364 05 01 0000 00000001 00000002 00000003`

func TestDescriptorBytes(t *testing.T) {
	want := testkit.Unhex(t, goldenBytes)
	got, err := golden.Append([]byte("x"))
	if err != nil || !bytes.Equal(got[1:], want) || golden.Len() != len(want) {
		t.Errorf("length %d, %v\n%x, want\n%x", golden.Len(), err, got[1:], want)
	}
	if d, err := Parse(want); err != nil || !reflect.DeepEqual(d, golden) {
		t.Errorf("%+v, %v", d, err)
	}
	var slot [SlotLen]byte
	for i := range slot {
		slot[i] = 0xff
	}
	copy(slot[:], want)
	if d, err := ParseSlot(&slot); err != nil || !reflect.DeepEqual(d, golden) {
		t.Errorf("slot: %+v, %v", d, err)
	}
}

// Descriptors that are refused: too short, too long, or with one wrong field.
func TestDescriptorRefused(t *testing.T) {
	good := testkit.Unhex(t, goldenBytes)
	refused := func(what string, b []byte) {
		t.Helper()
		if d, err := Parse(b); !errors.Is(err, &Error{Status: StatusDescriptor}) {
			t.Errorf("%s: %+v, %v", what, d, err)
		}
	}
	for n := range good {
		refused("truncated", good[:n])
		if d, _ := Parse(good[:n]); d.ID != golden.ID && n >= 8 || d.ID != 0 && n < 8 {
			t.Errorf("%d bytes: id %#x", n, d.ID)
		}
	}
	refused("one byte more", append(bytes.Clone(good), 0))
	for what, change := range map[string]struct {
		at int
		to byte
	}{
		"version 0": {0, 0}, "version 2": {0, 2}, "flag 1": {1, 3}, "zero at 4": {4, 1}, "7 operands": {8, 7}, "255 operands": {8, 255},
		"1 operand": {8, 1}, "zero at 9": {9, 1}, "zero at 15": {15, 1}, "no type": {16 + 16, 0}, "unknown type": {16 + 16, 11},
		"flag of the result": {16 + 17, 2}, "zero of the result": {16 + 18, 1}, "last zero of the result": {16 + 19, 1},
		"length": {16 + 11, 25}, "long length": {16 + 8, 1}, "extent": {16 + 23, 3}, "no extents": {48 + 23, 0},
		"extent behind a 0": {48 + 31, 1}, "flag of an operand": {80 + 17, 3}, "type of another size": {80 + 16, byte(Int16)},
	} {
		b := bytes.Clone(good)
		b[change.at] = change.to
		refused(what, b)
	}
	wrap := bytes.Clone(good)
	copy(wrap[16:], testkit.Unhex(t, "ffffffffffffffe9"))
	refused("beyond the last address", wrap)
	copy(wrap[16:], testkit.Unhex(t, "ffffffffffffffe8"))
	if _, err := Parse(wrap); err != nil {
		t.Errorf("up to the last address: %v", err)
	}
}

// Extents whose product does not fit in 32 or 64 bits are refused, whatever is left of it.
func TestShapeOverflow(t *testing.T) {
	for _, s := range []Shape{{1 << 31, 2}, {1 << 16, 1 << 16}, {1 << 31, 1 << 31, 4}, {1<<32 - 1, 1<<32 - 1, 1<<32 - 1}, {1 << 29}} {
		if n, ok := s.bytes(Float64); ok {
			t.Errorf("%s: %d bytes", s, n)
		}
	}
	if n, ok := (Shape{1<<29 - 1}).bytes(Float64); !ok || n != 1<<32-8 {
		t.Errorf("%d bytes, %v", n, ok)
	}
}

func TestAppendRefuses(t *testing.T) {
	if _, err := (&Descriptor{ID: MaxID + 1}).Append(nil); err == nil {
		t.Error("an id of 25 bits")
	}
	if _, err := (&Descriptor{Operands: make([]Operand, MaxOperands+1)}).Append(nil); err == nil {
		t.Error("7 operands")
	}
}

func TestAnswerBytes(t *testing.T) {
	a := Answer{ID: 0xabcdef, Status: StatusStale}
	want := testkit.Unhex(t, "01 09 000000 abcdef")
	if got := a.Append(nil); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	if got, err := ParseAnswer(want); err != nil || got != a {
		t.Errorf("%+v, %v", got, err)
	}
	if got := a.Immediate(); got != 0xabcdef09 || AnswerOf(got) != a {
		t.Errorf("%#x, %+v", got, AnswerOf(got))
	}
	for n := range want {
		if _, err := ParseAnswer(want[:n]); err == nil {
			t.Errorf("%d bytes are accepted", n)
		}
	}
	for _, bad := range []string{"01 09 000000 abcdef 00", "02 09 000000 abcdef", "01 09 010000 abcdef", "01 09 000001 abcdef"} {
		if _, err := ParseAnswer(testkit.Unhex(t, bad)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// FuzzDescriptor: what is parsed is written again to the same bytes, and the rest is refused
// with a reason.
func FuzzDescriptor(f *testing.F) {
	f.Add(testkit.Unhex(f, goldenBytes))
	f.Add(testkit.Unhex(f, goldenBytes)[:48])
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Parse(b)
		if err != nil {
			if !errors.Is(err, &Error{Status: StatusDescriptor}) {
				t.Errorf("%x: %v", b, err)
			}
			return
		}
		if again, err := d.Append(nil); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%x written again as %x, %v", b, again, err)
		}
		if err := d.check(); err != nil {
			t.Errorf("%x was parsed, and is refused: %v", b, err)
		}
		if a, err := ParseAnswer(b); err == nil && !bytes.Equal(a.Append(nil), b) {
			t.Errorf("answer %x", b)
		}
	})
}
