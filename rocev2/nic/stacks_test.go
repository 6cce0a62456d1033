// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/testenv/engines"
	"github.com/softroce/softroce-xdp/testenv/load"
	"github.com/softroce/softroce-xdp/testenv/timing"
)

// bothStacks has the engine and the host's own stack send to one destination at once,
// and returns what each got across, bit/s of payload.
func bothStacks(t *testing.T, hosts []*engines.Host, warm, length time.Duration) (engine, host float64) {
	t.Helper()
	var ends [2]*load.Endpoint
	for i, h := range hosts {
		ep, err := load.Open(load.Config{Local: h.IPv4(), Do: h.Do})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ep.Close() })
		ends[i] = ep
	}
	a, b := connected(t, hosts, short)
	// The first packet to somebody has the pacer set up.
	if _, err := ends[0].Send(t.Context(), load.Flow{To: hosts[1].IPv4(), Bytes: 1, MessageBytes: 1}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	reports := make(chan load.Report, 1)
	go func() {
		r, err := ends[0].Send(t.Context(), load.Flow{To: hosts[1].IPv4(), Duration: warm + length, Window: 64})
		if err != nil {
			t.Error(err)
		}
		reports <- r
	}()
	wr := qp.SendWR{Op: qp.OpWrite, Flags: qp.Signaled, SGL: a.sge(0, 1<<14), RemoteAddr: b.va, RKey: b.key}
	pump(t, a, &wr, 8, warm)
	n, took := pump(t, a, &wr, 8, length)
	r := <-reports
	var from, to time.Duration
	for _, s := range r.Samples {
		if s.At <= warm {
			from = s.At
			continue
		}
		host += float64(s.Bytes) * 8
		to = s.At
	}
	return float64(n) * (1 << 14) * 8 / took.Seconds(), host / (to - from).Seconds()
}

// The rate of a destination holds for each of the two stacks that send there; nothing
// limits their sum (docs/operations.md says why). Neither takes from the other.
func TestTwoStacksOneDestination(t *testing.T) {
	const rate = 20e6
	engine, host := bothStacks(t, twoHosts(t, "--policy", "mode=fixed", "--rate", "20mbit"), time.Second, 2*time.Second)
	t.Logf("engine %.1f Mbit/s, host's stack %.1f Mbit/s", engine/1e6, host/1e6)
	for name, got := range map[string]float64{"the engine": engine, "the host's stack": host} {
		if got > 1.03*rate {
			t.Errorf("%s sent %.1f Mbit/s at a rate of %.1f", name, got/1e6, rate/1e6)
		}
		if got < .5*rate {
			timing.Missed(t, "%s came only to %.1f Mbit/s of %.1f: the other took it", name, got/1e6, rate/1e6)
		}
	}
}
