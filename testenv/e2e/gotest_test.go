// SPDX-License-Identifier: Apache-2.0

package e2e

// This file tests the scripts in .ci.

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// Events of a stage, as `go test -json` writes them.
const (
	good = `{"Time":"2026-01-02T03:04:05Z","Action":"pass","Package":"example.com/a","Test":"TestGood","Elapsed":0.5}
{"Time":"2026-01-02T03:04:05Z","Action":"pass","Package":"example.com/a","Elapsed":1.5}
{"Time":"2026-01-02T03:04:05Z","Action":"skip","Package":"example.com/empty","Elapsed":0}
`
	testless = `{"Time":"2026-01-02T03:04:05Z","Action":"output","Package":"example.com/main","Output":"ok  \texample.com/main\t0.003s\n"}
{"Time":"2026-01-02T03:04:05Z","Action":"pass","Package":"example.com/main","Elapsed":0.003}
`
	skipped = `{"Time":"2026-01-02T03:04:05Z","Action":"run","Package":"example.com/a","Test":"TestSkip"}
{"Time":"2026-01-02T03:04:05Z","Action":"output","Package":"example.com/a","Test":"TestSkip","Output":"    x_test.go:9: needs root\n"}
{"Time":"2026-01-02T03:04:05Z","Action":"skip","Package":"example.com/a","Test":"TestSkip","Elapsed":0}
`
	bad = `{"Time":"2026-01-02T03:04:05Z","Action":"run","Package":"example.com/a","Test":"TestBad"}
{"Time":"2026-01-02T03:04:05Z","Action":"output","Package":"example.com/a","Test":"TestBad","Output":"    x_test.go:12: 1 is not 2\n"}
{"Time":"2026-01-02T03:04:05Z","Action":"fail","Package":"example.com/a","Test":"TestBad","Elapsed":0}
{"Time":"2026-01-02T03:04:05Z","Action":"fail","Package":"example.com/a","Elapsed":1.5}
`
)

// TestSummary checks which stages .ci/gotest takes for failed.
func TestSummary(t *testing.T) {
	require.Command(t, "go")
	for _, c := range []struct {
		name, status, events, all string
		pass                      bool
		want                      string
	}{
		{"good", "0 7", good, "1", true, "1 tests passed, 0 failed, 0 skipped      7s"},
		{"skipped", "0 7", skipped + good, "", true, "needs root"},
		{"skipped where all must run", "0 7", skipped + good, "1", false, "FAIL  stage"},
		{"a test failed", "1 7", bad, "", false, "1 is not 2"},
		{"not built", "1 7", good, "", false, "FAIL  stage"},
		{"a TestMain that runs no test", "0 7", good + testless, "", false, "example.com/main passed without running a test"},
		{"skipped, and 0 is no demand", "0 7", skipped + good, "0", true, "needs root"},
		{"no test", "0 7", "", "", false, "0 tests passed"},
		{"no stage", "", "", "", false, "no stage has run"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if c.status != "" {
				write(t, filepath.Join(dir, "stage.status"), c.status+"\n")
				write(t, filepath.Join(dir, "stage.json"), c.events)
			}
			cmd := exec.Command("../../.ci/gotest", "summary")
			cmd.Env = append(os.Environ(), "GOTEST_OUT="+dir, require.RequireEnv+"="+c.all)
			out, err := cmd.CombinedOutput()
			if (err == nil) != c.pass || strings.HasSuffix(string(out), "PASS\n") != c.pass || !strings.Contains(string(out), c.want) {
				t.Errorf("error %v, want success %v and %q in:\n%s", err, c.pass, c.want, out)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}
