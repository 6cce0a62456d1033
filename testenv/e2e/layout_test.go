// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// TestUpgradeOfOlderLayout: tables of the ABI version before are refused by name, even
// if a map has another name in it, and stay as they are. Detach removes them.
func TestUpgradeOfOlderLayout(t *testing.T) {
	for _, renamed := range []bool{false, true} {
		t.Run(fmt.Sprintf("renamed=%v", renamed), func(t *testing.T) {
			l := newLab(t, labSpec{attach: []string{"--rate", "1G"}})
			n := l.node[0]
			cfg, err := n.open(t).LiveConfig()
			if err != nil {
				t.Fatal(err)
			}
			defer cfg.Close()
			cfg.AbiVersion = bpf.ABIVersion - 1
			pins := loader.PinDir(n.pins, topo.IfName)
			if renamed {
				if err := os.Rename(filepath.Join(pins, bpf.SoftroceMapActive), filepath.Join(pins, "of_another_layout")); err != nil {
					t.Fatal(err)
				}
			}

			before := programs(t, l.top.Host(1))
			want := fmt.Sprintf("the tables have layout %d, this binary has %d: detach and attach again", bpf.ABIVersion-1, bpf.ABIVersion)
			for _, args := range [][]string{{"attach", topo.IfName, "--upgrade"}, {"table", topo.IfName}, {"status", topo.IfName}} {
				if out, err := n.try(args...); err == nil || !strings.Contains(out, want) {
					t.Errorf("softroce-xdp %v: %v, %q", args, err, out)
				}
			}
			if after := programs(t, l.top.Host(1)); after != before {
				t.Errorf("programs %v became %v", before, after)
			}
			if !loader.AgentAlive(n.run, topo.IfName) {
				t.Error("the refused upgrade ended the agent")
			}

			n.must(t, "detach", topo.IfName)
			n.must(t, "attach", topo.IfName, "--rate", "1G")
			n.must(t, "attach", topo.IfName, "--upgrade")
			l.meet(t)
		})
	}
}
