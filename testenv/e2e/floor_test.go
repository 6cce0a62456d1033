// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// TestOutlastedTimeout: at the floor, all that a sender has in flight waits in the pacer
// for longer than its timeout, and it repeats what nobody has lost. That is no reason to
// stay at that rate.
func TestOutlastedTimeout(t *testing.T) {
	topo.RequireRoot(t)
	const (
		least  = 1_000_000 // bit/s: the window takes half a second
		enough = 200 * least
		rto    = 67 * time.Millisecond
		bound  = 2 * testkit.Patience // many times what it takes
	)
	l := newLab(t, labSpec{attach: []string{"--rate", "1G", "--policy", "min-rate=1M", "--policy", "initial-rate=1M"}})
	a := l.node[0].open(t)
	testkit.Eventually(t, "the peer understands stamps", func() bool { return l.row(t, a).Caps&bpf.CapStamp != 0 })
	if rate := l.row(t, a).RateBps; rate > 2*least {
		t.Fatalf("begins with %d bit/s", rate)
	}

	begin := time.Now()
	f := l.start(load.Flow{Window: 64, MinRTO: rto, GiveUp: bound})
	var rate uint64
	// It takes 15 to 60 s: a decision needs the feedback of packets that wait in the pacer. A
	// rate that never increases would take for ever.
	for rate = l.row(t, a).RateBps; rate < enough && time.Since(begin) < bound; rate = l.row(t, a).RateBps {
		time.Sleep(20 * time.Millisecond)
	}
	took := time.Since(begin)
	r := l.end(t, f)
	t.Logf("%d Mbit/s after %v", rate/1e6, took.Round(10*time.Millisecond))
	if rate < enough {
		t.Errorf("still at %d bit/s after %v: %d packets, %d of them again, after %d timeouts", rate, took, r.Packets, r.Retransmits, r.Timeouts)
	}
	if r.Timeouts == 0 {
		t.Error("its timeout was not outlasted: this test shows nothing")
	}
}
