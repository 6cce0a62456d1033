// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// The committed report has all modules that are there now. Those that change with each register of the
// definition may have the row of an earlier one. If this fails, it is older than the
// sources: `make rtl-report` (some minutes), and commit docs/card/card-rtl.txt.
func TestCommittedReport(t *testing.T) {
	text, err := os.ReadFile("../../../docs/card/card-rtl.txt")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^(Yosys [^:]*):`).FindSubmatch(text)
	if version == nil {
		t.Fatal("docs/card/card-rtl.txt has no version of yosys: run `make rtl-report`")
	}
	sources, err := readModules("..")
	if err != nil {
		t.Fatal(err)
	}
	rows := parse(string(text), string(version[1]))
	for _, m := range sources.modules() {
		r, ok := rows[m]
		if !ok || r.fingerprint != sources.fingerprint(m) && !ofDefinition[m] {
			t.Errorf("docs/card/card-rtl.txt is older than module %s: run `make rtl-report` and commit it", m)
		}
		delete(rows, m)
	}
	for m := range rows {
		t.Errorf("docs/card/card-rtl.txt has module %s, which is not there: run `make rtl-report` and commit it", m)
	}
}

const counter = "module counter (input logic clk, output logic [7:0] n);\n  always_ff @(posedge clk) n <= n + 8'd1;\nendmodule\n"

// A report is made by yosys, and a second one keeps the rows of modules that are unchanged.
func TestReport(t *testing.T) {
	require.Command(t, "yosys")
	dir := t.TempDir()
	source, out := filepath.Join(dir, "counter.sv"), filepath.Join(dir, "report.txt")
	reported := func(text string) map[string]row {
		t.Helper()
		if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := report(t.Context(), dir, out, false); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		version, err := yosysVersion(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return parse(string(got), version)
	}
	flipflops := func(r row) int { return r.counts[kindOf("FDRE")] }
	first := reported(counter)["counter"]
	if flipflops(first) != 8 || first.counts[kindOf("LUT2")]+first.counts[kindOf("CARRY8")] == 0 {
		t.Errorf("a counter of 8 bits: %+v", first)
	}
	if wide := reported(strings.ReplaceAll(strings.ReplaceAll(counter, "7:0", "15:0"), "8'd1", "16'd1"))["counter"]; flipflops(wide) != 16 {
		t.Errorf("a counter of 16 bits: %+v", wide)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	marked := strings.Replace(string(text), " 16 ", " 99 ", 1) // a row that is kept shows it
	if err := os.WriteFile(out, []byte(marked), 0o600); err != nil {
		t.Fatal(err)
	}
	if kept := reported(strings.ReplaceAll(strings.ReplaceAll(counter, "7:0", "15:0"), "8'd1", "16'd1") + "// the end\n")["counter"]; flipflops(kept) != 99 {
		t.Errorf("the module has not changed, and its row has: %+v", kept)
	}
	if err := report(t.Context(), t.TempDir(), out, false); err == nil {
		t.Error("a folder without sources gives a report")
	}
}

func TestFormat(t *testing.T) {
	r := count(map[string]int{"LUT1": 1, "LUT6": 2, "MUXF7": 3, "CARRY4": 4, "FDRE": 5, "FDSE": 6, "SRL16E": 7, "RAMB36E2": 8, "DSP48E2": 9, "INV": 10})
	r.module, r.fingerprint = "m", "abc"
	if diff := cmp.Diff([]int{3, 3, 4, 11, 7, 8, 9}, r.counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	text := format(map[string]row{"m": r}, "Yosys 1")
	if got := parse(text, "Yosys 1")["m"]; got.fingerprint != "abc" || !cmp.Equal(got.counts, r.counts) {
		t.Errorf("%s gives %+v", text, got)
	}
	if got := parse(text, "Yosys 2"); len(got) != 0 {
		t.Errorf("rows of another version are kept: %+v", got)
	}
}
