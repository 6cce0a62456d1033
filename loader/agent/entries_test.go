// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
)

// The times of an entry that the agent makes are on the clock of the stamps, as those that the
// data plane writes.
func TestAddedEntryHasClockOfStamps(t *testing.T) {
	onAttached(t, loader.Options{}, func(t *testing.T, l netlink.Link, o loader.Options) {
		a := mustOpen(t, o)
		a.clockOffset = 37 * second
		peer := netip.MustParseAddr("10.53.0.9")
		before := loader.Monotonic()
		if !a.addEntry(peer, 0, 0) {
			t.Fatal("no entry")
		}
		row, found, err := a.att.Lookup(peer)
		if err != nil || !found {
			t.Fatal(found, err)
		}
		if last := lastUsed(&row.Regs, a.clockOffset); last < before {
			t.Errorf("last used %d ns before it was made", before-last)
		}
		if idle(&row.Regs, before+uint64(idleLimit), a.clockOffset) {
			t.Error("it is idle before its time")
		}
	})
}

// The clock of the stamps may be set while the agent runs. Entries are compared with the
// present offset, and none is removed before each destination in use had the time to be used
// again.
func TestClockSet(t *testing.T) {
	for name, by := range map[string]int64{"forward": 3600e9, "back": -3600e9} {
		t.Run(name, func(t *testing.T) {
			a := play(1e9, 1e9, 0, 0).a
			now, offset := 10000*second, 7200*second
			a.clockOffset = offset
			old := bpf.DestRegs{LastTxNs: now + offset}
			offset += uint64(by)
			now += second
			a.followClock(offset, now)
			if a.clockOffset != offset {
				t.Errorf("offset %d, want %d", a.clockOffset, offset)
			}
			if a.sweep.due(now) || a.sweep.due(now+uint64(idleLimit)-1) {
				t.Error("entries are checked by times of the clock before it was set")
			}
			now += uint64(idleLimit)
			if !a.sweep.due(now) {
				t.Error("entries are not checked any more")
			}
			used := bpf.DestRegs{LastTxNs: now - second + offset}
			if idle(&used, now, a.clockOffset) || !idle(&old, now+second, a.clockOffset) {
				t.Errorf("idle: used since %v, not used since %v", idle(&used, now, a.clockOffset), idle(&old, now+second, a.clockOffset))
			}
			// Two clocks are not read at the same instant: small differences are none.
			a.followClock(offset+1000, now)
			if !a.sweep.due(now + uint64(sweepPeriod)) {
				t.Error("the sweep stops")
			}
		})
	}
}
