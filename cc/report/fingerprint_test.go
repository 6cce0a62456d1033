// SPDX-License-Identifier: Apache-2.0

package report

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What decides figures changes the fingerprint, and nothing else does.
func TestFingerprint(t *testing.T) {
	base := map[string]string{
		"go.mod":                        "module example.org/x\n\ngo 1.26\n\nrequire (\n\texample.org/histogram v1.0.0\n\texample.org/other v1.0.0\n)\n",
		"cc/report/report.go":           "package report\n\nimport (\n\t\"example.org/x/cc/sim\"\n\t\"example.org/x/internal/chart\"\n)\n\nvar _ = sim.Run + chart.Width\n",
		"cc/report/plots.go":            "package report\n\nvar width = 1\n",
		"cc/sim/sim.go":                 "package sim\n\nimport (\n\t_ \"embed\"\n\t\"example.org/histogram/h\"\n)\n\n//go:embed library/*.yaml\nvar library string\n\nvar Run = h.Bins // all\n",
		"cc/sim/sim_test.go":            "package sim\n",
		"cc/sim/library/10-incast.yaml": "name: incast\n",
		"cc/unused/unused.go":           "package unused\n",
		"internal/chart/chart.go":       "package chart\n\nvar Width = 1\n",
	}
	of := func(file, old, new string) string {
		t.Helper()
		dir := t.TempDir()
		files := maps.Clone(base)
		if file != "" {
			if !strings.Contains(files[file], old) {
				t.Fatalf("%s has no %q", file, old)
			}
			files[file] = strings.Replace(files[file], old, new, 1)
		}
		for name, text := range files {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		got, err := Fingerprint(filepath.Join(dir, "cc/sim"))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	before := of("", "", "")
	for _, c := range []struct {
		file, old, new string
		changes        bool
	}{
		{"cc/sim/sim.go", "h.Bins", "h.Bins + 1", true},
		{"cc/sim/sim.go", "// all", "// all of them", false},
		{"cc/sim/sim.go", "Run = h.Bins", "Run =\n\n\th.Bins", false},
		{"cc/sim/sim_test.go", "package sim\n", "package sim\n\nvar x int\n", false},
		{"cc/sim/library/10-incast.yaml", "incast", "incast-8", true},
		{"cc/report/report.go", "sim.Run", "2 * sim.Run", true},
		{"cc/report/plots.go", "1", "2", false},
		{"internal/chart/chart.go", "1", "2", false},
		{"cc/unused/unused.go", "unused", "used", false},
		{"go.mod", "histogram v1.0.0", "histogram v1.0.1", true},
		{"go.mod", "other v1.0.0", "other v1.0.1", false},
	} {
		if after := of(c.file, c.old, c.new); (after != before) != c.changes {
			t.Errorf("%s, %q to %q: changed %v, want %v", c.file, c.old, c.new, after != before, c.changes)
		}
	}
	if _, err := Fingerprint("/"); err == nil {
		t.Error("there is a fingerprint where there are no sources")
	}
}
