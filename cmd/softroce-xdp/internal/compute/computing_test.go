// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/task"
)

func TestReadOperand(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a:b.bin")
	if err := os.WriteFile(name, make([]byte, 24), 0o600); err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]operand{
		name + ":float64":       {Type: task.Float64, Shape: task.Shape{3}},
		name + ":uint16":        {Type: task.Uint16, Shape: task.Shape{12}},
		name + ":uint8:2x3x4":   {Type: task.Uint8, Shape: task.Shape{2, 3, 4}},
		name + ":int32:6":       {Type: task.Int32, Shape: task.Shape{6}},
		"-:int8":                {Type: task.Int8, Shape: task.Shape{5}},
		name + ":int64:1x3":     {Type: task.Int64, Shape: task.Shape{1, 3}},
		name + ":float32:1x1x6": {Type: task.Float32, Shape: task.Shape{1, 1, 6}},
	} {
		o, err := readOperand(spec, strings.NewReader("12345"))
		if err != nil || o.Type != want.Type || o.Shape != want.Shape || len(o.Data) == 0 {
			t.Errorf("%s: %+v, %v", spec, o, err)
		}
	}
	for spec, want := range map[string]string{
		name:                            "write FILE:TYPE",
		name + ":float":                 "write FILE:TYPE",
		name + ":uint8:5":               "has 24 elements of uint8, and 5 are 5",
		name + ":uint8:0x24":            "whole numbers",
		name + ":uint8:2x":              "whole numbers",
		name + ":uint8:1x1x1x24":        "at most 3 extents",
		name + ":uint8:99999x99999x999": "at most",
		"-:int16":                       "whole elements of 2 bytes",
		"/dev/null:int8":                "at least one",
		"/nothing:int8":                 "no such file",
	} {
		if o, err := readOperand(spec, strings.NewReader("12345")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", spec, o, err)
		}
	}
}

func TestResult(t *testing.T) {
	a := operand{Type: task.Float32, Shape: task.Shape{2, 3}}
	b := operand{Type: task.Float32, Shape: task.Shape{3, 5}}
	for name, want := range map[string]struct {
		typ   task.Type
		shape task.Shape
	}{
		"add": {task.Float32, task.Shape{2, 3}}, "sum": {task.Float64, task.Shape{1}}, "max": {task.Float32, task.Shape{1}},
		"gemm": {task.Float32, task.Shape{2, 5}}, "crc32c": {task.Uint32, task.Shape{1}}, "histogram": {task.Uint64, task.Shape{7}},
	} {
		id, err := kernelNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		typ, shape, err := resultOf(id, []operand{a, b}, 7)
		if err != nil || typ != want.typ || shape != want.shape {
			t.Errorf("%s: %s %s, %v", name, shape, typ, err)
		}
	}
	if _, _, err := resultOf(task.KernelGEMM, []operand{a}, 0); err == nil {
		t.Error("gemm of one matrix")
	}
	if _, _, err := resultOf(task.KernelHistogram, []operand{a, b}, 0); err == nil {
		t.Error("histogram without bins")
	}
	if _, err := kernelNamed("nothing"); err == nil {
		t.Error("a kernel that does not exist")
	}
	// Every kernel has a result.
	for _, id := range task.Builtin().IDs() {
		if _, _, err := resultOf(id, []operand{a, b}, 1); err != nil {
			t.Error(err)
		}
	}
}

func TestPrint(t *testing.T) {
	for want, x := range map[string]struct {
		b []byte
		t task.Type
		s task.Shape
	}{
		"-1\n2\n":         {[]byte{255, 2}, task.Int8, task.Shape{2}},
		"1 2\n3 4\n":      {[]byte{1, 2, 3, 4}, task.Uint8, task.Shape{2, 2}},
		"1 2\n3 4\n5 6\n": {[]byte{1, 2, 3, 4, 5, 6}, task.Uint8, task.Shape{3, 1, 2}},
		"258\n":           {[]byte{2, 1}, task.Uint16, task.Shape{1}},
		"-2\n":            {[]byte{254, 255, 255, 255}, task.Int32, task.Shape{1}},
		"1\n":             {[]byte{0, 0, 0x80, 0x3f}, task.Float32, task.Shape{1}},
		"1.5\n":           {[]byte{0, 0, 0, 0, 0, 0, 0xf8, 0x3f}, task.Float64, task.Shape{1}},
	} {
		var out bytes.Buffer
		if err := printResult(&out, x.b, x.t, x.s); err != nil || out.String() != want {
			t.Errorf("%s %s: %q, want %q", x.s, x.t, out.String(), want)
		}
	}
}
