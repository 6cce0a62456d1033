// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

var (
	all     = flag.Bool("mutants.all", false, "all mutants, not only the quick ones")
	only    = flag.String("mutants.area", "", "the mutants of this area")
	pattern = flag.String("mutants.name", "", "the mutants whose name contains this")
	skip    = flag.String("mutants.skip", "^$", "with mutants.whole: tests that are left out")
	whole   = flag.Bool("mutants.whole", false, "run all tests of the package that are not long, and print those that fail")
)

// moduleRoot is the folder of go.mod.
var moduleRoot = func() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	return dir
}()

// Bounds of a test that hangs, or takes ever more memory. Both are errors of the table. A test that waits for
// testkit.Patience in vain ends before either timeout.
const (
	pureTimeout = 2 * testkit.Patience
	timeout     = 12 * time.Minute
	pureKiB     = 4 << 20 // of address space

	_ = uint64(min(pureTimeout, timeout) - testkit.Patience - 1) // does not compile unless both are longer than Patience
)

// TestMutants builds each mutant and runs its test, which must fail.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a test binary for each mutant")
	}
	var rows []row
	passed := map[string]error{} // by package and tests: without a mutant
	for i := range areas {
		a := &areas[i]
		if len(a.selection()) == 0 {
			continue
		}
		t.Run(strings.ReplaceAll(a.name, " ", "_"), func(t *testing.T) {
			if a.root {
				require.Root(t)
			}
			for _, m := range a.selection() {
				t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
					if !*whole {
						a.passes(t, m, passed)
					}
					began := time.Now()
					by := a.find(t, m)
					rows = append(rows, row{m.name, a.name, by, time.Since(began)})
					t.Log("found by " + by)
				})
			}
		})
	}
	t.Log("\n" + table(rows))
}

// selection returns the mutants of the area that the flags select.
func (a *area) selection() (list []*mutant) {
	for i := range a.list {
		m := &a.list[i]
		switch {
		case *only != "" && a.name != *only, !strings.Contains(m.name, *pattern):
		case *all || *only != "" || *pattern != "" || i < a.runsQuick():
			list = append(list, m)
		}
	}
	return list
}

// passes runs the tests of the area that are in the package of m, once, without a mutant.
func (a *area) passes(t *testing.T, m *mutant, passed map[string]error) {
	t.Helper()
	pkg := a.packageOf(m)
	var tests []string
	for _, x := range a.selection() {
		if a.packageOf(x) == pkg {
			tests = append(tests, x.test)
		}
	}
	slices.Sort(tests)
	tests = slices.Compact(tests)
	run := strings.Join(tests, "|")
	err, known := passed[pkg+run]
	if !known {
		var o outcome
		if o, err = a.runTests(pkg, "", run); err == nil {
			err = o.allPassed(tests)
		}
		passed[pkg+run] = err
	}
	if err != nil {
		t.Fatalf("without a mutant: %v", err)
	}
}

// find runs the test of a mutant and returns the tests that failed.
func (a *area) find(t *testing.T, m *mutant) string {
	t.Helper()
	source := a.source(t, m)
	mutated := filepath.Join(t.TempDir(), filepath.Base(m.file))
	replaced := a.path(m)
	if isBPF(m.file) {
		replaced, mutated = compileBPF(t, a.path(m), source)
	} else if err := os.WriteFile(mutated, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{replaced: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	overlayFile := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	run := m.test
	if *whole {
		run = ""
	}
	o, err := a.runTests(a.packageOf(m), overlayFile, run)
	switch {
	case *whole && len(o.failed) > 0:
		return strings.Join(o.failed, " ")
	case err != nil:
		t.Fatal(err)
	case slices.Contains(o.failed, m.test):
		return m.test + ": " + o.reason[m.test]
	case slices.Contains(o.passed, m.test) || *whole:
		t.Errorf("no test fails: %s", m.name)
		return "NOT FOUND"
	}
	t.Fatalf("%s was not run: it is missing, or was skipped\n%s", m.test, o.output)
	return ""
}

// outcome has the top-level tests of a run of go test.
type outcome struct {
	passed, failed []string
	reason         map[string]string // first message of each test that names a line of a Go file
	output         string
}

// allPassed returns an error unless all tests have passed.
func (o *outcome) allPassed(tests []string) error {
	for _, test := range tests {
		if !slices.Contains(o.passed, test) {
			return fmt.Errorf("%s does not pass\n%s", test, o.output)
		}
	}
	return nil
}

// runTests runs the tests of a package that run names, "" = all. The error says why the result is none.
func (a *area) runTests(pkg, overlay, run string) (o outcome, err error) {
	limit := timeout
	if a.pure {
		limit = pureTimeout
	}
	args := []string{"test", "-count=1", "-vet=off", "-json", "-timeout=" + limit.String()}
	if run != "" {
		args = append(args, "-run=^("+run+")$")
	} else {
		args = append(args, "-short", "-skip="+*skip)
	}
	args = append(args, "./"+pkg)
	cmd := exec.Command("go", args...)
	if a.pure {
		cmd = exec.Command("sh", append([]string{"-c", fmt.Sprintf(`ulimit -v %d && exec go "$@"`, pureKiB), "sh"}, args...)...)
	}
	cmd.Dir = moduleRoot
	cmd.Env = os.Environ()
	if overlay != "" { // also for a go build of the test
		cmd.Env = append(cmd.Env, strings.TrimSpace("GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay))
	}
	if a.env != "" {
		cmd.Env = append(cmd.Env, a.env)
	}
	b, failed := cmd.CombinedOutput()
	o.read(b)
	return o, o.verdict(failed, limit)
}

// verdict returns why a run of go test has no result, nil if it has one. failed is the error of go test.
func (o *outcome) verdict(failed error, limit time.Duration) error {
	switch {
	case failed == nil:
		return nil
	case strings.Contains(o.output, "panic: test timed out after"):
		return fmt.Errorf("the test has no deadline of its own: it ran for %v", limit)
	case strings.Contains(o.output, "load program: "):
		return fmt.Errorf("the kernel refuses the program: %.3000s", o.output)
	case strings.Contains(o.output, "build the product: "):
		return fmt.Errorf("the test cannot build the product: %.3000s", o.output)
	case len(o.failed) == 0:
		return fmt.Errorf("no test has failed, but go test: %w\n%.3000s", failed, o.output)
	}
	return nil
}

// read reads the output of go test -json. A test has failed if it has reported so itself: test2json also ends
// the tests that a panic of another goroutine interrupted.
func (o *outcome) read(b []byte) {
	o.reason = map[string]string{}
	var text strings.Builder
	for line := range bytes.Lines(b) {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(line, &e) != nil {
			text.Write(line) // of the compiler
			continue
		}
		text.WriteString(e.Output)
		top, _, _ := strings.Cut(e.Test, "/")
		if o.reason[top] == "" && goLine.MatchString(e.Output) {
			o.reason[top] = strings.TrimSpace(e.Output)
		}
		if e.Action == "pass" && e.Test != "" && !strings.Contains(e.Test, "/") {
			o.passed = append(o.passed, e.Test)
		}
		if test, ok := strings.CutPrefix(e.Output, "--- FAIL: "); ok && e.Action == "output" {
			if test, _, _ = strings.Cut(test, " "); !strings.Contains(test, "/") {
				o.failed = append(o.failed, test)
			}
		}
	}
	o.output = text.String()
}

// goLine matches a message of a test.
var goLine = regexp.MustCompile(`^\s*\w+\.go:\d+: `)

// row is a line of the table.
type row struct {
	mutant, area, by string
	took             time.Duration
}

// table returns the rows as a table for people.
func table(rows []row) string {
	var b strings.Builder
	var sum time.Duration
	for _, r := range rows {
		fmt.Fprintf(&b, "%-20s %-90s %5.1f s  %.160s\n", r.area, r.mutant, r.took.Seconds(), r.by)
		sum += r.took
	}
	fmt.Fprintf(&b, "%d mutants, %.0f s\n", len(rows), sum.Seconds())
	return b.String()
}
