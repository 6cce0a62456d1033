// SPDX-License-Identifier: Apache-2.0

package card

import (
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/engine"
)

// What a driver writes to a model that runs counts as done at that time, not at that of the last frame or timer.
func TestTimeOfWrites(t *testing.T) {
	m := New()
	c, err := hwoffload.Open(m)
	if err != nil {
		t.Fatal(err)
	}
	r := Start(m, [regs.PortsCount]Wire{})
	defer r.Close()
	for _, write := range []func(){
		func() { regs.QpOf(c, firstQP).SetModify(regs.QpModify(0).WithModifyStart(true)) },
		func() { regs.DoorbellsOf(c, 0).SetSq(0) },
		func() { regs.PrecreditOf(c).SetControl(regs.PrecreditControl(0).WithEnable(true)) },
	} {
		m.lock.Lock() // no timer is handled after before, and before the write
		before := r.now()
		m.lock.Unlock()
		write()
		m.lock.Lock()
		now := m.data.net.core.Now()
		m.lock.Unlock()
		if now < before {
			t.Errorf("a write at %d counts as done at %d", before, now)
		}
	}
}

// A group keeps only the counters of regions that are gone.
func TestGroupForgetsRegions(t *testing.T) {
	g := &group{all: []spread{{&engine.Distribution{}, &region{gone: true}}, {&engine.Distribution{}, &region{}}}}
	if g.forgetEnded(); len(g.all) != 1 || g.all[0].region.gone {
		t.Errorf("%d regions are left", len(g.all))
	}
}
