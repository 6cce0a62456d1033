// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// Build makes other programs of this project for the scripts of a test, and returns their directory.
func Build(t *testing.T, programs ...string) string {
	t.Helper()
	dir := t.TempDir()
	// The scripts run programs as another user.
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range programs {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, p), "github.com/softroce/softroce-xdp/cmd/"+p)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", p, err, out)
		}
	}
	return dir
}

// With returns a setup of scripts that finds the programs of a directory, and runs the setup next.
func With(dir string, next func(*testscript.Env) error) func(*testscript.Env) error {
	return func(env *testscript.Env) error {
		env.Setenv("PATH", fmt.Sprintf("%s%c%s", dir, os.PathListSeparator, env.Getenv("PATH")))
		return next(env)
	}
}
