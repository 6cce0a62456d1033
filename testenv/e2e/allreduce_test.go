// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// TestAllReduce has four hosts sum their vectors in a ring, by their programs and by tasks in the NIC of
// the next host (S1.7). The command compares every element with the sum.
func TestAllReduce(t *testing.T) {
	topo.RequireRoot(t)
	spec := topo.Spec{StaticNeighbours: true}
	for i := range 4 {
		spec.Hosts = append(spec.Hosts, topo.HostSpec{Name: fmt.Sprintf("node%d", i)})
	}
	hosts := engines.New(t, spec, "--rate", "10G", "--pacer", "none")
	for _, mode := range []string{"--in-nic=false", "--in-nic=true"} {
		var all sync.WaitGroup
		for i, h := range hosts {
			all.Go(func() {
				next := hosts[(i+1)%len(hosts)].Addr(i%2 == 1).String()
				out, err := h.Product("compute", "allreduce", "--rank", fmt.Sprint(i), "--nodes", "4", "--next", next,
					"--bytes", "4M", "--rounds", "2", "--cores", "1", "--timeout", "5m", mode)
				if err != nil || strings.Count(out, "4MiB of 4 hosts") != 2 {
					t.Errorf("%s, %s: %v\n%s", h.Name(), mode, err, out)
					return
				}
				t.Logf("%s, %s:\n%s", h.Name(), mode, out)
			})
		}
		all.Wait()
	}
}
