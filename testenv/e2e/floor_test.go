// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/testenv/load"
	"github.com/softroce/softroce-xdp/testenv/topo"
)

// TestOutlastedTimeout: at the least rate what a sender has under way waits in our pacer
// for longer than its timeout, and it repeats what nobody has lost. That is no reason to
// stay at that rate.
func TestOutlastedTimeout(t *testing.T) {
	topo.RequireRoot(t)
	const (
		least  = 1_000_000 // bit/s: a window takes half a second
		window = 64
		enough = 200 * least
	)
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true})
	var ends [2]*load.Endpoint
	var nodes [2]*node
	for i, h := range top.Hosts() {
		ep, err := load.Open(load.Config{Local: h.IPv4(), Do: h.Do})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ep.Close() })
		ends[i], nodes[i] = ep, newNode(t, h)
		nodes[i].must(t, "attach", topo.IfName, "--rate", "1G", "--policy", "min-rate=1M", "--policy", "initial-rate=1M")
	}
	to := top.Host(2).IPv4()
	if _, err := ends[0].Send(t.Context(), load.Flow{To: to, Bytes: 1, MessageBytes: 1}); err != nil {
		t.Fatal(err)
	}
	a := nodes[0].open(t)
	regs := func() bpf.DestRegs {
		r, _, err := a.Lookup(to)
		if err != nil {
			t.Fatal(err)
		}
		return r.Regs
	}
	eventually(t, "the peer understands stamps", func() bool { d := regs(); return d.Caps&bpf.CapStamp != 0 && d.ClassId != 0 })
	if rate := regs().RateBps; rate > 2*least {
		t.Fatalf("begins with %d bit/s", rate)
	}

	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan load.Report, 1)
	begin := time.Now()
	go func() {
		r, err := ends[0].Send(ctx, load.Flow{To: to, Window: window, GiveUp: 4 * time.Minute})
		if err != nil {
			t.Error(err)
		}
		sent <- r
	}()
	var rate uint64
	// It takes 15 to 60 s: a step of the rate is judged when what waits has left. Without a
	// way out it takes for ever.
	for rate = regs().RateBps; rate < enough && time.Since(begin) < 3*time.Minute; rate = regs().RateBps {
		time.Sleep(20 * time.Millisecond)
	}
	took := time.Since(begin)
	cancel()
	r := <-sent
	t.Logf("%d Mbit/s after %v; %d packets, %d again, %d timeouts", rate/1e6, took.Round(10*time.Millisecond), r.Packets, r.Retransmits, r.Timeouts)
	if rate < enough {
		t.Errorf("still at %d bit/s after %v: %d packets, %d of them again, after %d timeouts", rate, took, r.Packets, r.Retransmits, r.Timeouts)
	}
	if r.Timeouts == 0 {
		t.Error("its timeout was not outlasted: this test shows nothing")
	}
}
