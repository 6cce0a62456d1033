// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// synthesis is the command of yosys: for UltraScale+, which cards with 100 GbE have. Modules
// below the named one are part of it, and its ports are no pins. Memories are block RAM: yosys
// 0.23 ends with an error when it considers LUTs of this family for a large memory.
const synthesis = "synth_xilinx -family xcup -flatten -noiopad -nolutram"

// synthesisLimit ends a synthesis that does not end.
const synthesisLimit = time.Hour

// kinds are what a module is made of: the columns of the report, and how the names of their
// cells begin.
var kinds = []struct {
	column string
	cells  []string
}{
	{"LUT", []string{"LUT"}},
	{"mux", []string{"MUXF"}},
	{"carry", []string{"CARRY"}},
	{"flip-flop", []string{"FD"}},
	{"shift-LUT", []string{"SRL"}},
	{"block-RAM", []string{"RAMB", "URAM"}},
	{"DSP", []string{"DSP"}},
}

// row is a line of the report.
type row struct {
	module, fingerprint string
	counts              []int // counts by kind
}

// yosysVersion is the name and the number of the version.
func yosysVersion(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "yosys", "-V").Output()
	if err != nil {
		return "", fmt.Errorf("yosys -V: %w", err)
	}
	fields := strings.Fields(string(out))
	if len(fields) < 2 {
		return "", fmt.Errorf("yosys -V says %q", out)
	}
	return fields[0] + " " + fields[1], nil
}

// synthesize returns how many cells of each type a module takes.
func synthesize(ctx context.Context, module string, files []string) (map[string]int, error) {
	dir, err := os.MkdirTemp("", "rtl-report-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	statistics := filepath.Join(dir, "stat.json")
	ctx, cancel := context.WithTimeout(ctx, synthesisLimit)
	defer cancel()
	script := fmt.Sprintf("read_verilog -sv %s; %s -top %s; tee -q -o %s stat -json", strings.Join(files, " "), synthesis, module, statistics)
	if out, err := exec.CommandContext(ctx, "yosys", "-q", "-p", script).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("yosys -q -p %q: %w\n%s", script, errors.Join(err, ctx.Err()), out)
	}
	text, err := os.ReadFile(statistics)
	if err != nil {
		return nil, err
	}
	var result struct {
		Design struct {
			Cells map[string]int `json:"num_cells_by_type"`
		} `json:"design"`
	}
	if err := json.Unmarshal(text, &result); err != nil {
		return nil, fmt.Errorf("statistics of yosys for %s: %w", module, err)
	}
	return result.Design.Cells, nil
}

// count sorts cells into kinds. Each cell belongs to the first kind that fits: an inverter or a
// constant belongs to none.
func count(cells map[string]int) row {
	r := row{counts: make([]int, len(kinds))}
	for name, n := range cells {
		if i := kindOf(name); i >= 0 {
			r.counts[i] += n
		}
	}
	return r
}

func kindOf(cell string) int {
	for i, k := range kinds {
		for _, prefix := range k.cells {
			if strings.HasPrefix(cell, prefix) {
				return i
			}
		}
	}
	return -1
}

// head is the text before the table. Rows of another head are of another synthesis.
func head(version string) string {
	return "What the modules of hwoffload/rtl take of an FPGA, after synthesis and before placement.\n" +
		"Made by `make rtl-report`; do not edit. A module includes the modules that it instantiates.\n" +
		"Parameters are those of the source: 1024 destinations, 4 cores in softroce_card, 2 in compute_cores alone.\n" +
		"softroce_card, softroce_decode and register_store change with each register of the definition, and may be\n" +
		"of an earlier one; sources is a fingerprint of what was synthesized.\n" +
		version + ": " + synthesis + "\n\n"
}

// format writes the report.
func format(rows map[string]row, version string) string {
	lines := [][]string{{"module", "sources"}}
	for _, k := range kinds {
		lines[0] = append(lines[0], k.column)
	}
	for _, m := range slices.Sorted(maps.Keys(rows)) {
		r := rows[m]
		line := []string{r.module, r.fingerprint}
		for _, n := range r.counts {
			line = append(line, strconv.Itoa(n))
		}
		lines = append(lines, line)
	}
	width := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			width[i] = max(width[i], len(cell))
		}
	}
	var b strings.Builder
	b.WriteString(head(version))
	for _, line := range lines {
		fmt.Fprintf(&b, "%-*s  %-*s", width[0], line[0], width[1], line[1])
		for i := 2; i < len(line); i++ {
			fmt.Fprintf(&b, "  %*s", width[i], line[i])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// parse returns the rows of a report by module, if it has the head of this version.
func parse(text, version string) map[string]row {
	rows := map[string]row{}
	table, ok := strings.CutPrefix(text, head(version))
	if !ok {
		return rows
	}
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) != 2+len(kinds) || fields[0] == "module" {
			continue
		}
		r := row{module: fields[0], fingerprint: fields[1]}
		for _, f := range fields[2:] {
			n, err := strconv.Atoi(f)
			if err != nil {
				return map[string]row{}
			}
			r.counts = append(r.counts, n)
		}
		rows[r.module] = r
	}
	return rows
}
