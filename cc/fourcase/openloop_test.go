// SPDX-License-Identifier: Apache-2.0

package fourcase

import (
	"math/rand/v2"
	"testing"
	"time"
)

// openPath is a sender of data that nothing answers, on a link with a bottleneck whose losses
// somebody reports.
type openPath struct {
	*path
	capacity, buffer uint64 // packets a window and packets in the buffer of the bottleneck
	queue            uint64
	lossy            float64
	rng              *rand.Rand
}

func newOpenPath(link, capacity uint64, seed uint64) *openPath {
	x := &openPath{path: newPath(link, int64(ms), 0, 10*ms), rng: rand.New(rand.NewPCG(seed, 1))}
	x.bottleneck(capacity)
	x.r.RateBps = link
	return x
}

func (x *openPath) bottleneck(bps uint64) {
	x.capacity = max(bps/100/recoveryPacket, 1)
	x.buffer = x.capacity // 10 ms
}

// run is the mean rate of what arrived, and the share that was lost.
func (x *openPath) run(d time.Duration) (bps uint64, lost float64) {
	var sent, gone, arrived uint64
	for t := time.Duration(0); t < d; t += x.tick {
		before := x.sent
		s := x.window(openLoop)
		n := x.sent - before
		var random uint64
		for range n {
			if x.rng.Float64() < x.lossy {
				random++
			}
		}
		x.queue += n - random
		out := min(x.queue, x.capacity)
		x.queue -= out
		full := x.queue - min(x.queue, x.buffer)
		x.queue -= full
		s.Loss = uint32(random + full)
		sent, gone, arrived = sent+n, gone+random+full, arrived+out
		Step(&x.r, &x.p, s, x.now)
	}
	return uint64(float64(arrived) * recoveryPacket / d.Seconds()), float64(gone) / float64(max(sent, 1))
}

// TestOpenLoop: losses up to one in ten that are not our doing cost no throughput, more
// lower the rate, and a bottleneck is shared without flooding it. After each the full rate is
// back within two seconds.
func TestOpenLoop(t *testing.T) {
	for _, c := range []struct {
		name      string
		link      uint64
		capacity  uint64
		lossy     float64
		atLeast   float64 // smallest share of the capacity that arrives
		atMost    float64 // the rate at the end, of the link; 0 = any
		lostBelow float64
	}{
		{name: "no loss", link: gbit, capacity: gbit, atLeast: 0.99, lostBelow: 0.001},
		{name: "1 %", link: gbit, capacity: gbit, lossy: 0.01, atLeast: 0.97, lostBelow: 0.02},
		{name: "5 %", link: gbit, capacity: gbit, lossy: 0.05, atLeast: 0.93, lostBelow: 0.06},
		{name: "5 %, few packets", link: 10 * mbit, capacity: 10 * mbit, lossy: 0.05, atLeast: 0.85, lostBelow: 0.06},
		{name: "20 %", link: gbit, capacity: gbit, lossy: 0.2, atMost: 0.05, lostBelow: 0.25},
		{name: "a tenth of the link", link: gbit, capacity: 100 * mbit, atLeast: 0.9, atMost: 0.15, lostBelow: 0.05},
		{name: "a hundredth of the link", link: 10 * gbit, capacity: 100 * mbit, atLeast: 0.9, atMost: 0.015, lostBelow: 0.05},
		{name: "a tenth of the link and 5 %", link: gbit, capacity: 100 * mbit, lossy: 0.05, atLeast: 0.85, atMost: 0.15, lostBelow: 0.15},
	} {
		for seed := uint64(1); seed <= 3; seed++ {
			x := newOpenPath(c.link, c.capacity, seed)
			x.lossy = c.lossy
			x.run(3 * sec)
			got, lost := x.run(10 * sec)
			t.Logf("%-30s %.3f of the capacity, %.4f lost, rate %.4f of the link", c.name, float64(got)/float64(c.capacity), lost, float64(x.r.RateBps)/float64(c.link))
			if util := float64(got) / float64(c.capacity); util < c.atLeast || lost > c.lostBelow {
				t.Errorf("%s: %.3f of the capacity arrives, %.4f is lost, want %.2f at least and %.3f", c.name, util, lost, c.atLeast, c.lostBelow)
			}
			if c.atMost > 0 && float64(x.r.RateBps) > c.atMost*float64(c.link) {
				t.Errorf("%s: rate %d, want %.3f of the link at most", c.name, x.r.RateBps, c.atMost)
			}
			if x.r.RateBps < x.p.MinRateBps {
				t.Errorf("%s: rate %d below min_rate_bps", c.name, x.r.RateBps)
			}
			x.lossy = 0
			x.bottleneck(c.link)
			x.run(2 * sec)
			if x.r.RateBps < c.link/10*9 {
				t.Errorf("%s: rate %d two seconds after", c.name, x.r.RateBps)
			}
		}
	}
}

// TestOpenLoopDecides: no more than once in openInterval, never where answers are due, and
// not without something sent.
func TestOpenLoopDecides(t *testing.T) {
	p := DefaultParams(gbit)
	start := uint64(1000 * sec)
	for _, c := range []struct {
		name   string
		sample Sample
		after  uint64
		want   Why
	}{
		{"too soon", Sample{OpenLoop: true, Sent: 200}, openInterval - 1, WhyOpenWait},
		{"nothing sent", Sample{OpenLoop: true, Sent: 100}, openInterval, WhyOpenWait},
		{"answers are due", Sample{Sent: 200}, openInterval, WhyNoFeedback},
		{"nothing lost", Sample{OpenLoop: true, Sent: 200}, openInterval, WhyOpenRaise},
		{"one lost is no share", Sample{OpenLoop: true, Sent: 101, Loss: 1}, openInterval, WhyOpenRaise},
		{"a tenth lost", Sample{OpenLoop: true, Sent: 200, Loss: 11}, openInterval, WhyOpenLoss},
		{"little used, beyond the share", Sample{OpenLoop: true, Sent: 200, AppLimited: true, ShareBps: 100 * mbit}, openInterval, WhyAppLimited},
		{"little used, below the share", Sample{OpenLoop: true, Sent: 200, AppLimited: true, ShareBps: gbit}, openInterval, WhyOpenRaise},
		{"a CNP", Sample{OpenLoop: true, Sent: 200, CE: 1}, openInterval, WhyCE},
	} {
		r := Regs{RateBps: 100 * mbit, SentPackets: 100, DecidedNs: start}
		if d := Step(&r, &p, c.sample, start+c.after); d.Why != c.want {
			t.Errorf("%s: %v, %s", c.name, d.Action, d.Reason())
		}
	}
	// What the windows between two decisions lose counts with the next.
	r := Regs{RateBps: 100 * mbit, SentPackets: 100, DecidedNs: start}
	Step(&r, &p, Sample{OpenLoop: true, Sent: 150, Loss: 11}, start+1)
	if d := Step(&r, &p, Sample{OpenLoop: true, Sent: 200}, start+openInterval); d.Action != ActionLossCut || r.OpenLost != 0 {
		t.Errorf("%v, %s", d.Action, d.Reason())
	}
}

// TestSilenceAtTheFloor: loss without feedback does not go below min_rate_bps, a queue that is
// seen to stand does.
func TestSilenceAtTheFloor(t *testing.T) {
	p := DefaultParams(gbit)
	r := Regs{RateBps: 10 * p.MinRateBps}
	run(&r, &p, queued(0, 0))
	sent := uint64(1000)
	for range 100 {
		sent += 10
		run(&r, &p, Sample{Loss: 5, Sent: sent})
	}
	if r.RateBps != p.MinRateBps {
		t.Errorf("rate %d after losses in silence, want min_rate_bps, %d", r.RateBps, p.MinRateBps)
	}
}
