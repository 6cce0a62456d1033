// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

// The edt pacer needs fq, which not every kernel has: that of the test machines does.
// Two network namespaces in one emulated machine carry little, so rates are low.
func TestEDTInAMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a machine")
	}
	require.Root(t)
	if err := rxepeer.CheckHost(); err != nil {
		require.Skip(t, err.Error())
	}
	product, err := engines.Binary()
	if err != nil {
		t.Fatal(err)
	}
	bench := filepath.Join(t.TempDir(), "bench")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bench, "github.com/softroce/softroce-xdp/testenv/bench")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build bench: %v\n%s", err, out)
	}
	prefer(t) // and so has the machine
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	vm, err := rxepeer.Boot(ctx, rxepeer.Config{
		Name: "edt", Fresh: true, NoRxe: true, Product: product, Files: map[string]string{"/usr/sbin/bench": bench},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer vm.Close()
	t.Log(vm.Describe())
	// Agent and source are of different sessions. With one processor and a group for each session,
	// Linux 6.12 lets the agent starve for more than ten seconds: the data plane fails open meanwhile.
	if _, err := vm.Run(ctx, "sh", "-c", "echo 0 > /proc/sys/kernel/sched_autogroup_enabled"); err != nil {
		t.Fatal(err)
	}
	res, err := vm.Run(ctx, "bench", "pacer", "--bin", "/usr/sbin/softroce-xdp", "--emulated", "--pacers", "edt", "--rates", "1M,3M,10M", "--measure", "1s")
	t.Logf("%s%s", res.Stdout, res.Stderr)
	if exit, ok := rxepeer.IsExit(err); ok && exit.ExitCode == missed {
		require.Missed(t, "a rate is not as promised")
	} else if err != nil {
		t.Error(err)
	}
	if n := strings.Count(res.Stdout, "| edt |"); n != 3 {
		t.Errorf("%d rates measured of 3", n)
	}
}

// missed is bench's exit status when all was measured and something is not as promised.
const missed = 1
