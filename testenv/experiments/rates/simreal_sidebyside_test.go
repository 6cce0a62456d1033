// SPDX-License-Identifier: Apache-2.0

//go:build timing

package rates

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// TestSimulationAndReality runs each scenario of testdata three times on real interfaces
// and, with the round trips found there, in the simulator, and compares the two figure by
// figure (compare.go). SOFTROCE_REPORT names a folder for the table. The machine must be
// otherwise idle.
func TestSimulationAndReality(t *testing.T) {
	topo.RequireRoot(t)
	const runs = 3
	var pairs []Pair
	all := simRealScenarios(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, by := range simRealSenders {
			t.Run(name+"/"+by.name, func(t *testing.T) {
				p := Pair{Scenario: all[name], By: by.name}
				for i := range runs {
					t.Run(fmt.Sprint(i+1), func(t *testing.T) {
						real := reality(t, p.Scenario, by)
						if err := real.complete(); err != nil {
							t.Error(err)
						}
						simulated, err := simulate(t, p.Scenario, by, real.rtt)
						if err != nil {
							t.Fatal(err)
						}
						p.Real, p.Simulated, p.RTT = append(p.Real, real.Result), append(p.Simulated, simulated), append(p.RTT, real.rtt)
					})
				}
				for _, figure := range p.Apart() {
					t.Error(figure)
				}
				pairs = append(pairs, p)
			})
		}
	}
	var b bytes.Buffer
	if err := WriteText(&b, fmt.Sprintf("RoCEv2 between network namespaces with the product attached (target %s), and the same in the simulator", target), pairs); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", &b)
	if dir := os.Getenv("SOFTROCE_REPORT"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "simreal.txt"), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
