// SPDX-License-Identifier: Apache-2.0

package nicbench_test

import (
	"context"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/testenv/bench/nicbench"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

func cable(t *testing.T) [2]topo.CableEnd {
	t.Helper()
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
	ends, err := topo.Cable(top.Host(1), top.Host(2), topo.CableSpec{Name: "cable0", MTU: 9000})
	if err != nil {
		t.Fatal(err)
	}
	return ends
}

// Everything that is sent arrives, whatever the size and whichever side kicks: what is
// measured is not what was lost.
func TestLoop(t *testing.T) {
	ends := cable(t)
	for _, spec := range []nicbench.LoopSpec{
		{Size: 4170, Data: true}, {Size: 3522, Data: true}, {Size: 64, Data: true}, {Size: 64}, {Size: 2120, Kicker: true}, {Size: 4170}, {Size: 8900, Batch: 32}, {Size: 1100, Spin: true, Busy: 20 * time.Microsecond},
	} {
		spec.Duration = 100 * time.Millisecond
		r, err := nicbench.Loop(context.Background(), ends, spec)
		t.Logf("%+v: %v %v", spec, r, err)
		if err != nil || r.Received == 0 || r.Sent != r.Received || r.BusyPoll != (spec.Busy > 0) {
			t.Errorf("%+v %v", r, err)
		}
	}
	if _, err := nicbench.Loop(context.Background(), ends, nicbench.LoopSpec{Size: 10}); err == nil {
		t.Error("packets shorter than their header")
	}
}

func TestPingPong(t *testing.T) {
	ends := cable(t)
	for _, spec := range []nicbench.PingPongSpec{{Size: 64}, {Size: 4170, Sleep: true}, {Size: 64, Sleep: true, Busy: 20 * time.Microsecond}} {
		spec.Duration = 100 * time.Millisecond
		r, err := nicbench.PingPong(context.Background(), ends, spec)
		t.Logf("%+v: %v %v", spec, r, err)
		if err != nil || r.Trips == 0 || r.P50 == 0 || r.P50 > r.P99 || r.P99 > r.Max {
			t.Errorf("%+v %v", r, err)
		}
	}
}
