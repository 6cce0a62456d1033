// SPDX-License-Identifier: Apache-2.0

package clib

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// sanitizeVariable has the sanitizers of gcc with which a test process builds library and programs. The test process sets it
// that starts another one (sanitized).
const sanitizeVariable = "CLIB_SANITIZE"

// sanitizers are those of the tests, with the runtime that a program must load first.
var sanitizers = map[string]string{"address,undefined": "libasan.so", "thread": "libtsan.so"}

func sanitizer() string { return os.Getenv(sanitizeVariable) }

// sanitizedTime is how long all tests of one sanitizer may take, each of which has its own limit.
const sanitizedTime = 13 * time.Minute

// options are the variables of the runtimes.
var options = []string{"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"}

// The quick part of the tests finds nothing with a library and programs that are built with sanitizers.
func TestSanitizers(t *testing.T) {
	clients := []string{"names", "port", "refused", "resized", "cancelled", "moved", "forgotten", "forks", "interrupted"}
	tests := []string{"TestPrograms/program", "TestPrograms/connect"}
	for _, c := range clients {
		tests = append(tests, "TestClients/"+c)
	}
	for e := range edges {
		clients = append(clients, e)
		tests = append(tests, "TestEdges/"+e)
	}
	sanitized(t, "^(TestClients|TestEdges|TestPrograms)$/^("+strings.Join(clients, "|")+"|program|connect)$", tests...)
}

// sanitized runs tests of this package by a pattern with each sanitizer. The tests named must pass. Nothing may be reported,
// also by a program that a test expects to fail, except the error of testdata/wrong.c.
func sanitized(t *testing.T, pattern string, tests ...string) {
	require.Root(t)
	require.Command(t, "gcc", "make", "setarch")
	for name := range sanitizers {
		reports, wrong := t.TempDir(), t.TempDir() // not of the subtest, whose name has a comma: the variables have options with commas
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(wrong, "wrong")
			out, err := exec.Command("gcc", "-g", "-pthread", "-fsanitize="+name, "-o", program, "testdata/wrong.c").CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			_, _ = withOptions(t, name, wrong, program).CombinedOutput() // its error may end it
			if found := testkit.Must1(filepath.Glob(filepath.Join(wrong, "report*")))(t); len(found) != 1 {
				t.Errorf("%d reports of a program with an error, want 1", len(found))
			}

			for d := reports; d != os.TempDir() && d != "/"; d = filepath.Dir(d) { // programs of other users write there
				testkit.Must(t, os.Chmod(d, 0o777))
			}
			out, err = withOptions(t, name, reports, os.Args[0], "-test.run="+pattern, "-test.v", "-test.timeout="+sanitizedTime.String()).CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, beforeFailures(string(out)))
			}
			for _, test := range tests {
				if !strings.Contains(string(out), "--- PASS: "+test+" (") {
					t.Errorf("%s has not passed", test)
				}
			}
			for _, f := range testkit.Must1(filepath.Glob(filepath.Join(reports, "*")))(t) {
				t.Errorf("%s", testkit.Must1(os.ReadFile(f))(t))
			}
		})
	}
}

// beforeFailures returns the lines of a test's output that tell why it failed: each with FAIL or panic, and 40 before it.
func beforeFailures(out string) string {
	lines := strings.Split(out, "\n")
	var kept []string
	next := 0
	for i, line := range lines {
		if strings.Contains(line, "FAIL") || strings.Contains(line, "panic:") {
			kept = append(kept, lines[max(next, i-40):i+1]...)
			next = i + 1
		}
	}
	return strings.Join(append(kept, lines[max(next, len(lines)-10):]...), "\n")
}

// withOptions is a command with the variables of a sanitizer, whose reports are files of a directory. Programs of Debian exit after
// an error without closing the device, so what they leave is not reported. The address space is not
// randomized: the runtimes of gcc 12 need that on some kernels.
func withOptions(t *testing.T, sanitizer, reports string, argv ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), sanitizedTime+time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "setarch", append([]string{"-R"}, argv...)...)
	cmd.WaitDelay = testkit.Patience // a process that the command has left may keep the pipe open
	// UCX changes the code of mmap in memory, which is the runtime's.
	cmd.Env = append(os.Environ(), sanitizeVariable+"="+sanitizer, "UCX_MEM_MMAP_HOOK_MODE=none")
	for _, o := range options {
		cmd.Env = append(cmd.Env, o+"=log_path="+filepath.Join(reports, "report")+":detect_leaks=0:report_thread_leaks=0:die_after_fork=0")
	}
	return cmd
}

// preload is the variable by which Debian's programs load the runtime of the sanitizer, if there is one, before the library.
// No shell may have it: the fork of one with the runtime of threads does not return.
func preload(t testing.TB) string {
	t.Helper()
	if sanitizer() == "" {
		return "LD_PRELOAD="
	}
	path := testkit.Must1(exec.Command("gcc", "-print-file-name="+sanitizers[sanitizer()]).Output())(t)
	return "LD_PRELOAD=" + strings.TrimSpace(string(path))
}

// withSanitizer sets the variables of the sanitizer for a script. RUNTIME is preload, for the programs of Debian.
func withSanitizer(t testing.TB, env *testscript.Env) {
	env.Setenv("RUNTIME", preload(t))
	for _, o := range options {
		env.Setenv(o, os.Getenv(o))
	}
}
