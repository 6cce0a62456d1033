// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/rtl"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// The demonstration runs to its end. It fails by itself where data or results are wrong.
func TestCardDemo(t *testing.T) {
	require.Command(t, rtl.Programs...)
	bin := filepath.Join(t.TempDir(), "softroce-card")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/softroce/softroce-xdp/cmd/softroce-card")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := cardDemo(t.Context(), bin); err != nil {
		t.Error(err)
	}
}
