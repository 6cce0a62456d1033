// SPDX-License-Identifier: Apache-2.0

package netbench

import (
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// The demonstration runs to its end, in a short form: two waves. It fails by itself if content is
// wrong, the space does not follow the demand, or the network decides less than half.
func TestPoolDemo(t *testing.T) {
	topo.RequireRoot(t)
	bin := filepath.Join(t.TempDir(), "softroce-xdp")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Dir(bin), "github.com/softroce/softroce-xdp/cmd/softroce-xdp", "github.com/softroce/softroce-xdp/cmd/softroce-pool")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var out strings.Builder
	d := poolDemo{bin: bin, length: 12 * time.Second, out: &out}
	err := d.run(t.Context())
	t.Log(out.String())
	if err != nil {
		t.Error(err)
	}
}

// The demand begins low and is high after half a wave.
func TestDemand(t *testing.T) {
	half := uint32(wavePeriod / period / 2)
	if demandIn(0) != waveLow || demandIn(half) != waveHigh || demandIn(2*half) != waveLow {
		t.Errorf("%d, %d, %d", demandIn(0), demandIn(half), demandIn(2*half))
	}
}

// Space that follows the demand passes, and space that does not, or predictions of the fallback, do not.
func TestFollow(t *testing.T) {
	const slabs = 100
	run := func(space func(demand int) int, byNetwork uint64) error {
		var f follow
		for i := range 24 {
			demand := 10 + i%12
			f.add(lease.Status{SlabBytes: 1 << 20, Slabs: slabs, Nodes: []lease.NodeStatus{
				{Name: waveName, Demand: uint64(demand) << 20, Slabs: space(demand) + 1, Returning: 1, Expected: lease.Prediction{Periods: 10, ByNetwork: byNetwork}},
				{Name: "map", Demand: 1 << 20},
			}})
		}
		return f.verdict()
	}
	follows := func(demand int) int { return demand + 1 }
	for _, c := range []struct {
		name      string
		space     func(int) int
		byNetwork uint64
		want      string // part of the error; "" for none
	}{
		{"follows", follows, 6, ""},
		{"constant", func(int) int { return 15 }, 6, "does not follow"},
		{"opposite", func(demand int) int { return slabs - demand }, 6, "does not follow"},
		{"fallback", follows, 5, "50 % of the predictions are the network's"},
	} {
		err := run(c.space, c.byNetwork)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestCorrelation(t *testing.T) {
	a := []float64{1, 2, 3, 5}
	for _, c := range []struct {
		b    []float64
		want float64
	}{{[]float64{2, 4, 6, 10}, 1}, {[]float64{-1, -2, -3, -5}, -1}, {[]float64{7, 7, 7, 7}, 0}} {
		if got := correlation(a, c.b); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v: %v, want %v", c.b, got, c.want)
		}
	}
}
