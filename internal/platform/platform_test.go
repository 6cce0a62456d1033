// SPDX-License-Identifier: Apache-2.0

package platform_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A build for another platform fails with the reason, and nothing else is wrong in that package.
func TestOtherPlatforms(t *testing.T) {
	for _, p := range [][2]string{{"linux", "386"}, {"linux", "arm"}, {"darwin", "arm64"}, {"windows", "amd64"}} {
		cmd := exec.Command("go", "build", ".")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p[0], "GOARCH="+p[1])
		out, err := cmd.CombinedOutput()
		if err == nil || strings.Count(string(out), ".go:") != 1 || !strings.Contains(string(out), "undefined: softroce_xdp_runs_on_64_bit_Linux_only") {
			t.Errorf("%s/%s: %v: %s", p[0], p[1], err, out)
		}
	}
}

// Programs get the reason from the packages that they import.
func TestPackagesNeedPlatform(t *testing.T) {
	const module = "github.com/softroce/softroce-xdp/"
	for _, p := range []string{"rocev2/verbs", "rocev2/rdma", "rocev2/rdma/compute", "rocev2/nic", "rocev2/task", "loader"} {
		out, err := exec.Command("go", "list", "-deps", module+p).Output()
		if err != nil || !slices.Contains(strings.Fields(string(out)), module+"internal/platform") {
			t.Errorf("%s does not need package platform: %v", p, err)
		}
	}
}
