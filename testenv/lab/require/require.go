// SPDX-License-Identifier: Apache-2.0

// Package require says what a test needs of the machine. Where it is missing the
// test is skipped with the reason; where all must run (CI, SOFTROCE_REQUIRE_ALL=1)
// it fails.
package require

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// RequireEnv names the variable that turns every skip into a failure. `make test`
// sets it when CI=true.
const RequireEnv = "SOFTROCE_REQUIRE_ALL"

// All reports whether everything must run.
func All() bool {
	v := os.Getenv(RequireEnv)
	return v != "" && v != "0"
}

// Skip skips the test for a reason, or fails it where all must run.
func Skip(t testing.TB, reason string) {
	t.Helper()
	if All() {
		t.Fatalf("%s, and %s is set", reason, RequireEnv)
	}
	t.Skip(reason)
}

// Root is for tests that make network namespaces or load programs.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Skip(t, "needs root")
	}
}

// Command is for tests that run other programs.
func Command(t testing.TB, names ...string) {
	t.Helper()
	var missing []string
	for _, n := range names {
		if _, err := exec.LookPath(n); err != nil {
			missing = append(missing, n)
		}
	}
	if len(missing) > 0 {
		Skip(t, "needs "+strings.Join(missing, ", ")+" (.ci/run installs what the tests need)")
	}
}
