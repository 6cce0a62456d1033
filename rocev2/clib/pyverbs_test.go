// SPDX-License-Identifier: Apache-2.0

package clib

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/script"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Debian has the tests of rdma-core with its package python3-pyverbs, and the module pyverbs for its own Python. The results of
// the table are those of a version.
const (
	pyverbsVersion = "44."
	pyverbsTests   = "/usr/share/doc/rdma-core/tests"
	debianPython   = "/usr/bin/python3"
)

// pyverbsModules are the modules of the table, those of the quick test first.
var pyverbsModules = []string{
	"test_device", "test_pd", "test_addr", "test_cq", "test_qp", "test_mr",
	"test_cq_events", "test_qpex", "test_cqex", "test_atomic", "test_relaxed_ordering", "test_fork", "test_shared_pd", "test_parent_domain",
	"test_rdmacm",
}

const quickModules = 6

// pyverbsTime is how long the tests of a module may take. On rxe in an emulated machine some need most of a minute each.
const pyverbsTime = 15 * time.Minute

// pyverbsName is a name of the table for what a test needs that does not pass.
type pyverbsName struct{ match, name string }

// pyverbsFailures name what failed tests need, by the test and its exception.
var pyverbsFailures = []pyverbsName{
	{"^test_mr_rereg_access: .*: Completion status is Remote access error$", "`ibv_rereg_mr` changes the keys"},
	{"^test_mr_rereg_(addr|pd): .*: Completion status is WR flush error$", "RESET leaves completions"},
	{"^test_imported_", "import"},
}

// pyverbsSkips name what skipped tests need, by the text of unittest.
var pyverbsSkips = []pyverbsName{
	{"huge_page|huge pages", "huge pages of the machine"},
	{"Device memory", "device memory"},
	{"Raw Packet QP", "raw packets"},
	{"XRCD", "XRC"},
	{"Extended QP", "ATOMIC WRITE"},
	{"dmabuf", "dma-buf"},
	{"Create MW", "memory windows of type 1"},
}

// pyverbsRaces are tests whose outcome depends on the order of what runs at the same time, with the reason. They are not counted
// as passed or failed.
var pyverbsRaces = map[string]string{
	// It reduces the queue after it has posted work requests, and does not wait for their completions.
	"test_resize_cq": "a race of the test",
}

// pyverbsOutcome matches the lines of a test in the verbose output of unittest, in which stderr of the library may be.
var pyverbsOutcome = regexp.MustCompile(`(?m)^(test_\w+) \(tests\.(test_\w+)\.(?s:.*?)(?:(ok|FAIL|ERROR)|skipped ['"](.*)['"])$`)

// pyverbsException matches the report of a failed test up to its first exception.
var pyverbsException = regexp.MustCompile(`(?m)^(?:ERROR|FAIL): (test_\w+) \(tests\.(test_\w+)\.(?s:.*?)^Traceback .*\n(?:[ \t].*\n)*(\S.*)$`)

// pyverbsResult is what the tests of a module gave.
type pyverbsResult struct {
	passed          []string // names of tests
	failed, skipped int
	missing         map[string]int // number of tests that need what is missing
}

// row is the row of a module in the table.
func (r pyverbsResult) row(module string) string {
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(r.missing)) {
		missing = append(missing, fmt.Sprintf("%s (%d)", name, r.missing[name]))
	}
	total := len(r.passed) + r.failed + r.skipped
	return fmt.Sprintf("| `%s` | %d | %d | %d | %d | %s |\n", module, len(r.passed), r.failed, r.skipped, total, strings.Join(missing, ", "))
}

// add adds a test with its outcome, and the reason of a skipped one or the exception of a failed one.
func (r *pyverbsResult) add(test, outcome, reason string) {
	names := pyverbsSkips
	switch outcome {
	case "ok":
		r.passed = append(r.passed, test)
		return
	case "FAIL", "ERROR":
		r.failed++
		names, reason = pyverbsFailures, test+": "+reason
	default:
		r.skipped++
	}
	for _, m := range names {
		if regexp.MustCompile(m.match).MatchString(reason) {
			reason = m.name
			break
		}
	}
	r.missing[reason]++
}

// pyverbsLab is a host with an agent and the tests of pyverbs in a directory.
type pyverbsLab struct {
	host *commandHost
	dir  string
}

func newPyverbsLab(t *testing.T) *pyverbsLab {
	t.Helper()
	require.Root(t)
	requireVerbs(t)
	if _, err := os.Stat(filepath.Join(pyverbsTests, "run_tests.py")); err != nil {
		require.Skip(t, "needs the tests of rdma-core: apt-get install python3-pyverbs")
	}
	version, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", "python3-pyverbs").Output()
	if err != nil || !strings.HasPrefix(string(version), pyverbsVersion) {
		require.Skip(t, fmt.Sprintf("needs python3-pyverbs %sx, has %q", pyverbsVersion, version))
	}
	top := topo.ForTest(t, topo.Spec{Hosts: []topo.HostSpec{{NoOffload: true}, {NoOffload: true}}, StaticNeighbours: true})
	l := &pyverbsLab{newSoftware(t).host(t, top.Host(1).NamespacePath(), top.Host(1).IPv4().String()), t.TempDir()}
	if err := copyPyverbs(l.dir); err != nil {
		t.Fatal(err)
	}
	return l
}

// copyPyverbs copies the tests, and uncompresses those that Debian has compressed. Tests of the hardware of a vendor stay
// away: Python loads all.
func copyPyverbs(dir string) error {
	files, err := filepath.Glob(filepath.Join(pyverbsTests, "*.py*"))
	for _, file := range files {
		name, compressed := strings.CutSuffix(filepath.Base(file), ".gz")
		if regexp.MustCompile(`^test_(mlx5|efa|cuda)`).MatchString(name) {
			continue
		}
		from, openErr := os.Open(file)
		if openErr != nil {
			return openErr
		}
		defer from.Close()
		var content io.Reader = from
		if compressed {
			if content, err = gzip.NewReader(from); err != nil {
				return err
			}
		}
		text, readErr := io.ReadAll(content)
		if err := errors.Join(readErr, os.WriteFile(filepath.Join(dir, name), text, 0o600)); err != nil {
			return err
		}
	}
	return err
}

// run runs the tests of modules and returns the results by module.
func (l *pyverbsLab) run(t *testing.T, modules ...string) map[string]*pyverbsResult {
	t.Helper()
	output := l.output(t, modules...)
	t.Log(output)
	all := pyverbsOutcome.FindAllStringSubmatch(output, -1)
	if want := fmt.Sprintf("Ran %d test", len(all)); len(all) == 0 || !strings.Contains(output, want) {
		t.Fatalf("no %q in the output", want)
	}
	exceptions := map[[2]string]string{}
	for _, m := range pyverbsException.FindAllStringSubmatch(output, -1) {
		exceptions[[2]string{m[1], m[2]}] = m[3]
	}
	results := map[string]*pyverbsResult{}
	for _, m := range all {
		test, module, outcome, reason := m[1], m[2], m[3], m[4]
		if outcome == "FAIL" || outcome == "ERROR" {
			reason = exceptions[[2]string{test, module}]
		}
		if race, ok := pyverbsRaces[test]; ok {
			outcome, reason = "", race
		}
		if results[module] == nil {
			results[module] = &pyverbsResult{missing: map[string]int{}}
		}
		results[module].add(test, outcome, reason)
	}
	return results
}

// output is what unittest prints for modules or tests.
func (l *pyverbsLab) output(t *testing.T, names ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pyverbsTime)
	defer cancel()
	p, err := l.host.start(ctx, append([]string{
		"sh", "-c", `"$@" || test $? -eq 1`, "sh", // 1: tests have failed
		debianPython, filepath.Join(l.dir, "run_tests.py"), "-v", "--dev", l.host.device, "--port", "1", "--gid", l.host.gid,
	}, names...))
	if err != nil {
		t.Fatal(err)
	}
	_, output, err := p.wait()
	if err != nil {
		t.Fatalf("%s: %v\n%s", names, err, output)
	}
	return output
}

// TestPyverbs runs a part of the tests of rdma-core. Their results are those of the table.
func TestPyverbs(t *testing.T) {
	l := newPyverbsLab(t)
	page := script.ReadFile(t, commandsPage)
	results := l.run(t, pyverbsModules[:quickModules]...)
	for _, module := range pyverbsModules[:quickModules] {
		if row := results[module].row(module); !strings.Contains(page, row) {
			t.Errorf("%s does not have the row\n%s", commandsPage, row)
		}
	}
}
