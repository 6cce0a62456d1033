// SPDX-License-Identifier: Apache-2.0

package schemes

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/cc/sim"
)

// checkBudget compares what the senders of each receiver have unused with what it takes for outstanding, and that with
// its budget and its counters.
func (x *preScheme) checkBudget(t *testing.T, now int64, budget uint32) {
	t.Helper()
	unused := map[int]uint64{}
	for _, r := range x.receivers {
		for _, p := range r.end.Peers() {
			unused[int(p.ID)] += uint64(p.Sender.Usable(now))
		}
	}
	for host, r := range x.receivers {
		out, s := r.core.Outstanding(), r.core.Stats()
		if unused[host] > uint64(out) || out > budget {
			t.Fatalf("at %d: %d bytes are unused at the senders of host %d, it takes %d for outstanding, its budget is %d", now, unused[host], host, out, budget)
		}
		if back := s.Drained + s.Void + s.Lost + s.Reclaimed; s.Given != back+uint64(out) {
			t.Fatalf("at %d: host %d gave %d bytes, %d are back, it takes %d for outstanding", now, host, s.Given, back, out)
		}
	}
}

// Whatever is lost or waits, the pre-credit of all senders of a receiver together stays within its budget, and all of it
// comes back.
func TestPropertyPrecreditBudget(t *testing.T) {
	var seeds, given, lost uint64 // seeds: fewer with a pattern
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			seeds++
			rng := rand.New(rand.NewPCG(seed, 7))
			link := link100
			link.Loss = float64(rng.IntN(3)) * 0.01
			budget := uint32(4096 + rng.IntN(400_000))
			with, _ := withWindow(t, func(s *preSettings) {
				s.budget, s.senders, s.wait = int64(budget), 1+rng.IntN(64), rng.IntN(3)
			})
			hosts := 3 + rng.IntN(14)
			n, err := sim.New(sim.Config{Seed: seed, BufferBytes: 2 << 20, RTO: 200 * time.Microsecond}, sim.Star(hosts, link), with)
			if err != nil {
				t.Fatal(err)
			}
			for range 200 {
				from, to := rng.IntN(hosts), rng.IntN(2)
				if from == to {
					from = hosts - 1
				}
				at := time.Duration(rng.IntN(2_000_000))
				if _, err := n.Add(sim.FlowSpec{Src: from, Dst: to, Bytes: 1 + rng.Int64N(1<<(8+rng.IntN(11))), Start: at}); err != nil {
					t.Fatal(err)
				}
			}
			n.Every(0, time.Microsecond, func() {
				if now := n.Now(); now < 3*time.Millisecond || now%(100*time.Microsecond) == 0 { // all flows have begun by 2 ms
					with.checkBudget(t, now.Nanoseconds(), budget)
				}
			})
			n.Run(20 * time.Millisecond)
			for _, f := range n.Flows() {
				if f.EndNs == 0 {
					t.Fatalf("flow %d has not ended", f.ID)
				}
			}
			n.Run(n.Now() + 2*time.Duration(with.lifeNs()))
			for host, r := range with.receivers {
				if out := r.core.Outstanding(); out != 0 {
					t.Errorf("host %d takes %d bytes for outstanding when all is over", host, out)
				}
				s := r.core.Stats()
				given, lost = given+s.Given, lost+s.Lost
			}
		})
	}
	if !t.Failed() && seeds == 30 && (given == 0 || lost == 0) {
		t.Errorf("%d bytes given, %d lost: the test shows nothing", given, lost)
	}
	t.Logf("%d bytes given, %d of them lost", given, lost)
}
