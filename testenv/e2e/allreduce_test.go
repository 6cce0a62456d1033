// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// withRunDir executes a command that finds the sockets of the directory $0 where they are by default.
const withRunDir = `mount -t tmpfs none /run && mkdir /run/softroce-xdp && mount --bind "$0" /run/softroce-xdp && exec "$@"`

// TestAllReduce has four hosts sum their vectors in a ring, by their programs and by tasks in the NIC of
// the next host (S1.7). The example compares every element with the sum.
func TestAllReduce(t *testing.T) {
	topo.RequireRoot(t)
	require.Command(t, "unshare", "mount")
	bin := filepath.Join(t.TempDir(), "allreduce")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/softroce/softroce-xdp/examples/allreduce")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build examples/allreduce: %v\n%s", err, out)
	}
	spec := topo.Spec{StaticNeighbours: true}
	for i := range 4 {
		spec.Hosts = append(spec.Hosts, topo.HostSpec{Name: fmt.Sprintf("node%d", i)})
	}
	hosts := engines.New(t, spec, "--nic", "--rate", "10G", "--pacer", "none")
	for _, mode := range []string{"-in-nic=false", "-in-nic=true"} {
		var all sync.WaitGroup
		for i, h := range hosts {
			all.Go(func() {
				next := net.JoinHostPort(hosts[(i+1)%len(hosts)].Addr(i%2 == 1).String(), "7177")
				b, err := h.Command("unshare", "-m", "sh", "-c", withRunDir, h.LoaderOptions().RunDir, bin, "-dev", topo.IfName,
					"-rank", fmt.Sprint(i), "-nodes", "4", "-next", next, "-bytes", "4194304", "-rounds", "2", "-cores", "1", "-timeout", "5m",
					mode).CombinedOutput()
				out := string(b)
				if err != nil || strings.Count(out, "4194304 bytes of 4 hosts") != 2 {
					t.Errorf("%s, %s: %v\n%s", h.Name(), mode, err, out)
					return
				}
				t.Logf("%s, %s:\n%s", h.Name(), mode, out)
			})
		}
		all.Wait()
	}
}
