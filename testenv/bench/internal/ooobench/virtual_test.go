// SPDX-License-Identifier: Apache-2.0

package ooobench

import (
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// The goals of issue 14 that out-of-order mode reaches stay reached. Time is virtual: load of the
// machine changes nothing. docs/change/out-of-order.md names those that it misses.
func TestVirtualGoals(t *testing.T) {
	rows, err := table(1, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	misses := virtualGoals(rows)
	virtualReport(compare.NewReport(&out), rows, misses, 1000)
	t.Logf("\n%s", out.String())
	for _, m := range misses {
		if m.unreachable == "" && !m.near {
			t.Error(m.what)
		}
	}
	for _, r := range rows {
		o, sack := &r.of[virtualInOOO], &r.of[virtualInSACK]
		if o.goodput < 0.96*sack.goodput {
			t.Errorf("%+v: goodput %.0f, RC with SACK has %.0f", r.cell, o.goodput, sack.goodput)
		}
		if mtu := &r.of[virtualInMTU]; mtu.goodput < sack.goodput {
			t.Errorf("%+v: goodput %.0f with packets of the whole MTU, RC with SACK has %.0f", r.cell, mtu.goodput, sack.goodput)
		}
		if r.reorder > 0 && r.loss == 0 && o.ratio > 1.01 {
			t.Errorf("%+v: reordering looks like loss: %.3f packets sent per packet delivered", r.cell, o.ratio)
		}
		// Near what three trips take, with losses and reordering that do not occur together often.
		for i, load := range virtualLoads {
			if r.loss <= 0.001 && o.load[i].target.p99 > 1.25*r.least[i].p99 {
				t.Errorf("%+v: p99 %.0f us at %.0f %% load, three trips take %.0f", r.cell, o.load[i].target.p99, 100*load, r.least[i].p99)
			}
		}
	}
}

// Without loss, out-of-order mode has all of the goodput that its headers leave, within 0.1 %.
func TestShare(t *testing.T) {
	const n = 20000
	for _, c := range []struct {
		who   int
		share float64
	}{{virtualInOOO, oooShare(rcPayload)}, {virtualInMTU, oooShare(mtuPayload)}, {virtualInSACK, rcShare(rcPayload)}} {
		r, err := full(1, cell{}, virtualContend[c.who], n)
		if err != nil {
			t.Fatal(err)
		}
		got := r.goodput() / portRate
		t.Logf("%s: %.4f of the port, the headers leave %.4f", virtualContend[c.who].name, got, c.share)
		if got < 0.999*c.share || got > 1.001*c.share { // the wire counts whole nanoseconds for each packet
			t.Errorf("%s: %.4f of the port, the headers leave %.4f", virtualContend[c.who].name, got, c.share)
		}
	}
}
