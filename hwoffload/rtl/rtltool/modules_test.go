// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/rtl"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// write makes a folder of three files.
func write(t *testing.T, change ...string) *moduleSet {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a_pkg.sv": "package a_pkg;\n  localparam int ONE = 1;\n  localparam int TWO = 2;\nendpackage\n",
		"b.sv":     "// b\nmodule b;\n  c inner ();\nendmodule\n",
		"c.sv":     "module c;\n  localparam int X = a_pkg::ONE; // not d\nendmodule\n",
		"d.sv":     "module d;\nendmodule\n",
	} {
		for i := 0; i+2 < len(change); i += 3 {
			if change[i] == name {
				if !strings.Contains(text, change[i+1]) {
					t.Fatalf("%s has no %q", name, change[i+1])
				}
				text = strings.Replace(text, change[i+1], change[i+2], 1)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := readModules(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func Example() {
	s, err := readModules("..")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range s.files("token_bucket") {
		fmt.Println(filepath.Base(f))
	}
	// Output:
	// divide.sv
	// token_bucket.sv
}

func TestFiles(t *testing.T) {
	s := write(t)
	var names []string
	for _, f := range s.files("b") {
		names = append(names, filepath.Base(f))
	}
	if got := strings.Join(names, " "); got != "a_pkg.sv b.sv c.sv" {
		t.Errorf("files of b: %s", got)
	}
	if got := strings.Join(s.modules(), " "); got != "b c d" {
		t.Errorf("modules: %s", got)
	}
}

// What decides a circuit changes its fingerprint, and nothing else does.
func TestFingerprint(t *testing.T) {
	before := write(t).fingerprint("b")
	for _, c := range []struct {
		file, old, new string
		changes        bool
	}{
		{"b.sv", "inner", "other", true},
		{"b.sv", "// b", "// the module b", false},
		{"b.sv", "  c", "\tc", false},
		{"c.sv", "X", "Y", true},
		{"d.sv", "module d;", "module d; localparam int Z = 1;", false},
		{"a_pkg.sv", "= 1", "= 3", true},
		{"a_pkg.sv", "= 2", "= 3", false},
	} {
		if after := write(t, c.file, c.old, c.new).fingerprint("b"); (after != before) != c.changes {
			t.Errorf("%s, %q to %q: changed %v, want %v", c.file, c.old, c.new, after != before, c.changes)
		}
	}
}

func TestModulesRefused(t *testing.T) {
	if _, err := readModules(t.TempDir()); err == nil {
		t.Error("a folder without sources is accepted")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.sv"), []byte("module b; endmodule\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readModules(dir); err == nil || !strings.Contains(err.Error(), "has no module a") {
		t.Errorf("a file with another module: %v", err)
	}
}

// Verilator has no complaint about any module of the card, and yosys reads each.
func TestSources(t *testing.T) {
	require.Command(t, "verilator", "yosys")
	s, err := readModules("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range s.modules() {
		t.Run(m, func(t *testing.T) {
			files := s.files(m)
			if err := rtl.Lint(t.Context(), m, files...); err != nil {
				t.Error(err)
			}
			script := fmt.Sprintf("read_verilog -sv %s; hierarchy -check -top %s", strings.Join(files, " "), m)
			if out, err := exec.CommandContext(t.Context(), "yosys", "-q", "-p", script).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("yosys: %v\n%s", err, out)
			}
		})
	}
}
