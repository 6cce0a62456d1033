// SPDX-License-Identifier: Apache-2.0

package published

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// swiftParams has a target of 50 us for windows of 100 packets and more.
func swiftParams() SwiftParams {
	p := SwiftDefault(40_000, 100)
	p.MaxCwnd = 1000
	return p
}

func swiftNear(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Abs(want) {
		t.Fatalf("%s: got %g, want %g", what, got, want)
	}
}

func TestSwiftTargetScalesWithWindowAndHops(t *testing.T) {
	p := swiftParams()
	p.HopNs = 1000
	// alpha = 40us/(1/sqrt(.1)-1/10) = 40us/3.0622777 = 13062.2...ns
	for _, c := range []struct {
		cwnd float64
		hops int
		want int64
	}{
		{1000, 0, 50_000},
		{100, 0, 50_000},
		{100, 5, 55_000},
		{0.1, 0, 90_000},
		{0.001, 0, 90_000},
		{1, 0, 50_000 + 11_755}, // 13062.2*(1-.1) = 11755.9
		{25, 0, 50_000 + 1_306}, // 13062.2*(.2-.1) = 1306.2
	} {
		if got := p.Target(c.cwnd, c.hops); got != c.want {
			t.Errorf("cwnd %g, %d hops: target %d ns, want %d", c.cwnd, c.hops, got, c.want)
		}
	}
}

func TestSwiftSequence(t *testing.T) {
	p := swiftParams()
	f := NewSwiftFlow(&p)
	swiftNear(t, "start", f.Cwnd(), 100)
	f.Ack(0, 30_000, 30_000, 1, 0)
	swiftNear(t, "below target: ai/cwnd", f.Cwnd(), 100.01)
	// over = .2 of 62.5 us: 1-.8*.2 = .84
	f.Ack(100_000, 62_500, 62_500, 1, 0)
	swiftNear(t, "above: proportional cut", f.Cwnd(), 100.01*.84)
	f.Ack(162_499, 62_500, 62_500, 1, 0)
	swiftNear(t, "inside the same round trip: none", f.Cwnd(), 100.01*.84)
	f.Ack(162_500, 5_000_000, 62_500, 1, 0)
	swiftNear(t, "far above: max_mdf", f.Cwnd(), 100.01*.84*.5)
	f.Loss(1_000_000)
	swiftNear(t, "loss: max_mdf", f.Cwnd(), 100.01*.84*.25)
	for range 4 {
		f.Timeout(1_000_001)
	}
	swiftNear(t, "timeouts inside a round trip of a cut: none", f.Cwnd(), 100.01*.84*.25)
	f.Timeout(1_000_001)
	swiftNear(t, "the fifth in a row: the least window", f.Cwnd(), .001)
}

func TestSwiftBelowOnePacketThePacketsAreSpaced(t *testing.T) {
	p := swiftParams()
	f := NewSwiftFlow(&p)
	f.cwnd = 0.5
	f.Ack(0, 1_000_000, 40_000, 1, 0)
	swiftNear(t, "cut", f.Cwnd(), .5*.5)
	if got := f.PacingGap(); got != 160_000 {
		t.Errorf("gap %d ns, want 40 us / 0.25", got)
	}
	f.Ack(1_000_000, 40_000, 40_000, 1, 0)
	swiftNear(t, "increase below one packet is per acknowledged packet", f.Cwnd(), 1.25)
	if got := f.PacingGap(); got != 0 {
		t.Errorf("gap %d ns, want none", got)
	}
}

// A smaller window has a higher target, so of two flows that see the same delay
// the smaller one grows while the larger one shrinks.
func TestSwiftFlowScalingEqualises(t *testing.T) {
	p := swiftParams()
	big, small := NewSwiftFlow(&p), NewSwiftFlow(&p)
	big.cwnd, small.cwnd = 80, 2
	now := int64(0)
	for range 4000 {
		// A queue that holds what exceeds a product of 50 packets at 40 us.
		delay := int64(40_000 * max(1, (big.cwnd+small.cwnd)/50))
		now += delay
		big.Ack(now, delay, delay, big.cwnd, 0)
		small.Ack(now, delay, delay, small.cwnd, 0)
	}
	if r := small.Cwnd() / big.Cwnd(); r < 0.9 || r > 1.1 {
		t.Errorf("windows %g and %g after 4000 round trips", small.Cwnd(), big.Cwnd())
	}
}

func TestSwiftWindowStaysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := swiftParams()
		f := NewSwiftFlow(&p)
		now := int64(0)
		for range rapid.IntRange(0, 200).Draw(t, "events") {
			now += rapid.Int64Range(0, 100_000).Draw(t, "dt")
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				f.Loss(now)
			case 1:
				f.Timeout(now)
			default:
				d := rapid.Int64Range(1, 10_000_000).Draw(t, "delay")
				f.Ack(now, d, d, 1, 3)
			}
			if !(f.Cwnd() >= p.MinCwnd && f.Cwnd() <= p.MaxCwnd) {
				t.Fatalf("window %g", f.Cwnd())
			}
		}
	})
}
