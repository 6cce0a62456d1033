// SPDX-License-Identifier: Apache-2.0

package view

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/priority"
	"github.com/softroce/softroce-xdp/loader"
)

// What status shows of limits: those in force, and what was dropped.
func TestLimits(t *testing.T) {
	key := func(n byte) bpf.DestKey { return bpf.KeyOf(netip.AddrFrom4([4]byte{10, 0, 0, n})) }
	const now = 5_000_000_000
	in := loader.Limits{
		Sending:   map[bpf.DestKey]bpf.RateLimit{key(1): {RateBps: 30e6, UntilNs: now + 800_000_000}, key(2): {RateBps: 1e6, UntilNs: now}},
		Receiving: map[bpf.DestKey]bpf.ArrivalLimit{key(3): {LimitBps: 20e6, UntilNs: now + 1}, key(4): {LimitBps: 10e6, UntilNs: now - 1}, key(5): {LimitBps: 5e6, UntilNs: now - 1}},
		Dropped:   map[bpf.DestKey]bpf.ArrivalCount{key(3): {}, key(4): {DroppedPackets: 7, DroppedBytes: 9}, key(5): {}},
		Now:       *bpf.StateFrom(&priority.State{CapacityBps: 100e6, Flags: priority.On | priority.Congested, Level: 3, Active: 3, Held: 2}),
	}
	want := [][2]string{
		{"limited by", "10.0.0.1 to 30Mbit/s for the next 800ms"},
		{"receives", "shares 100Mbit/s among 3 active; it ends in level 3, 2 held back"},
		{"limits", "10.0.0.4 no more, 7 packets above it dropped"},
		{"limits", "10.0.0.3 to 20Mbit/s"},
	}
	if got := limitsOf(&in, now).lines(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for n := byte(10); n < 20; n++ {
		in.Sending[key(n)] = bpf.RateLimit{RateBps: 40e6, UntilNs: now + 1}
	}
	if got, want := limitsOf(&in, now).lines()[shownLimits], ([2]string{"limited by", "7 more"}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if x := limitsOf(&loader.Limits{}, now); x != nil {
		t.Errorf("no limits: %+v", x)
	}
}
