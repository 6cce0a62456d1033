// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/agent/internal/discovery"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// The times of an entry that the agent makes are on the clock of the stamps, as those that the
// data plane writes.
func TestAddedEntryHasClockOfStamps(t *testing.T) {
	onAttached(t, loader.Options{}, func(t *testing.T, l netlink.Link, o loader.Options) {
		a := mustOpen(t, o)
		a.clockOffset = 37 * second
		peer := netip.MustParseAddr("10.53.0.9")
		before := loader.Monotonic()
		if !a.addEntry(peer, 0, 0, 0) {
			t.Fatal("no entry")
		}
		row, found, err := a.att.Lookup(peer)
		if err != nil || !found {
			t.Fatal(found, err)
		}
		if last := lastUsed(&row.Regs, a.clockOffset); last < before {
			t.Errorf("last used %d ns before it was made", before-last)
		}
		if valid := row.Regs.ValidAfterNs - a.clockOffset; valid < before || valid > loader.Monotonic() {
			t.Errorf("echoes count of packets that left %d ns after it was made", int64(valid-before))
		}
		if idle(&row.Regs, before+uint64(idleLimit), a.clockOffset, idleLimit) {
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
			a := bare()
			now, offset := 10000*second, 7200*second
			a.clockOffset = offset
			old := bpf.DestRegs{LastTxNs: now + offset}
			offset += uint64(by)
			now += second
			a.followClock(offset, now)
			if a.clockOffset != offset {
				t.Errorf("offset %d, want %d", a.clockOffset, offset)
			}
			if a.sweep.after < now+uint64(idleLimit) {
				t.Error("entries are removed by times of the clock before it was set")
			}
			now = a.sweep.after
			used := bpf.DestRegs{LastTxNs: now - second + offset}
			if idle(&used, now, a.clockOffset, idleLimit) || !idle(&old, now+second, a.clockOffset, idleLimit) {
				t.Errorf("idle: used since %v, not used since %v", idle(&used, now, a.clockOffset, idleLimit), idle(&old, now+second, a.clockOffset, idleLimit))
			}
			// Two clocks are not read at the same instant: small differences are none.
			a.followClock(offset+1000, now)
			if a.sweep.after > now {
				t.Error("a small difference postpones the removal of idle entries")
			}
		})
	}
}

// The event of a new destination is lost when the ring is full. The sweep finds the entry by
// its missing number. The event itself, if it comes later, changes nothing.
func TestEventOfNewDestinationLost(t *testing.T) {
	onAttached(t, loader.Options{}, func(t *testing.T, l netlink.Link, o loader.Options) {
		a := mustOpen(t, o)
		if err := a.prepare(); err != nil {
			t.Fatal(err)
		}
		now := loader.Monotonic()
		peer := netip.MustParseAddr("10.53.0.9")
		create(t, a, peer, now)
		check := func(when string) {
			t.Helper()
			row, _, err := a.att.Lookup(peer)
			if err != nil || row.Regs.Node != 1 || row.Regs.Policy.WindowBytes == 0 {
				t.Errorf("%s: node %d, window %d: %v", when, row.Regs.Node, row.Regs.Policy.WindowBytes, err)
			}
			if a.peers.Len() != 1 || a.dests != 1 {
				t.Errorf("%s: %d peers, %d destinations; want 1", when, a.peers.Len(), a.dests)
			}
		}
		a.sweep.some(a, now+uint64(sweepPeriod))
		check("after the sweep")
		a.handle(bpf.Event{Type: bpf.EventNewDest, Peer: bpf.KeyOf(peer)})
		check("after the event")
		a.sweep.some(a, now+2*uint64(sweepPeriod))
		check("after another sweep")
	})
}

// An entry whose event no agent has handled is handled when the next agent starts. Its event
// may still be in the ring.
func TestNewDestinationWithoutAgent(t *testing.T) {
	onAttached(t, loader.Options{}, func(t *testing.T, l netlink.Link, o loader.Options) {
		a := mustOpen(t, o)
		peer := netip.MustParseAddr("10.53.0.9")
		create(t, a, peer, loader.Monotonic())
		if err := a.prepare(); err != nil {
			t.Fatal(err)
		}
		a.handle(bpf.Event{Type: bpf.EventNewDest, Peer: bpf.KeyOf(peer)})
		if row, _, err := a.att.Lookup(peer); err != nil || row.Regs.Node != 1 || a.peers.Len() != 1 || a.dests != 1 {
			t.Errorf("node %d, %d peers, %d destinations: %v", row.Regs.Node, a.peers.Len(), a.dests, err)
		}
	})
}

// An agent that takes over sends HELLO to the peers at once: with an engine, because the earlier agent may have announced
// the end of its own; without one, because the earlier agent may have had one.
func TestNextAgentIsAnnounced(t *testing.T) {
	for name, caps := range map[string]uint16{"engine": bpf.CapSACK | bpf.CapOOO, "no engine": 0} {
		t.Run(name, func(t *testing.T) {
			onAttached(t, loader.Options{}, func(t *testing.T, _ netlink.Link, o loader.Options) {
				earlier, err := loader.Open(topo.IfName, o)
				if err != nil {
					t.Fatal(err)
				}
				defer earlier.Close()
				d := bpf.DestRegs{LastTxNs: loader.Monotonic(), Node: 1, Caps: bpf.CapStamp}
				if err := earlier.Maps.DestTable.Put(keyN(2), &d); err != nil {
					t.Fatal(err)
				}
				live, err := earlier.LiveConfig()
				if err != nil {
					t.Fatal(err)
				}
				defer live.Close()
				live.Caps |= uint32(caps) // as loader/engine does when it opens the device
				a := mustOpen(t, o)
				a.peers = discovery.New(func(n uint64) uint64 { return n - 1 }) // the regular HELLO is as late as it can be
				if err := a.prepare(); err != nil {
					t.Fatal(err)
				}
				ask, _ := a.peers.Due(loader.Monotonic(), func(bpf.DestKey, uint64) bool { return true })
				if !slices.Contains(ask, keyN(2)) {
					t.Errorf("HELLO to %v, want one to the peer", ask)
				}
			})
		})
	}
}

// create makes an entry as egress does (dest_create in bpf/lib/dest.h), without its event.
func create(t *testing.T, a *Agent, peer netip.Addr, now uint64) {
	t.Helper()
	rate := a.cfg.InitialRateBps
	d := bpf.DestRegs{LastTxNs: now, RateBps: rate, StackRateBps: rate, EngineRateBps: rate}
	d.Policy.RateBps = rate
	if err := a.att.Maps.DestTable.Put(bpf.KeyOf(peer), &d); err != nil {
		t.Fatal(err)
	}
}

// amongIdle has new destinations begin at once, and returns an error if one of them does not start at the even share.
func amongIdle(t *testing.T, a *Agent, network byte) (wrong error) {
	t.Helper()
	link := a.cfg.LinkRateBps
	for n := range uint64(4) {
		if got := a.cfg.InitialRateBps; got != link/(n+1) && wrong == nil {
			wrong = fmt.Errorf("destination %d starts at %d bit/s, want %d of %d", n+1, got, link/(n+1), link)
		}
		peer := netip.AddrFrom4([4]byte{10, 53, network, byte(n)})
		create(t, a, peer, loader.Monotonic())
		var d bpf.DestRegs
		key := bpf.KeyOf(peer)
		if err := a.att.Maps.DestTable.Lookup(key, &d); err != nil {
			t.Fatal(err)
		}
		d.TxPackets = 1
		if err := a.att.Maps.DestTable.Put(key, &d); err != nil {
			t.Fatal(err)
		}
		a.handle(bpf.Event{Type: bpf.EventNewDest, Peer: key})
	}
	return wrong
}

// A new destination starts at the link's rate where all entries of the table are idle, and at the even share
// where others have just begun too.
func TestNewDestinationAmongIdle(t *testing.T) {
	onAttached(t, loader.Options{}, func(t *testing.T, l netlink.Link, o loader.Options) {
		a := mustOpen(t, o)
		long := loader.Monotonic() - uint64(time.Minute)
		for i := range 50 {
			create(t, a, netip.AddrFrom4([4]byte{10, 53, 1, byte(i)}), long)
		}
		if err := a.prepare(); err != nil {
			t.Fatal(err)
		}
		// Destinations count as active for at least so long (cc/loop): a test that stands still for longer begins again.
		const active = 640 * time.Millisecond
		for try := byte(2); ; try++ {
			began := time.Now()
			wrong := amongIdle(t, a, try)
			if wrong == nil {
				return
			}
			if time.Since(began) < active || try == 100 {
				t.Fatal(wrong)
			}
			time.Sleep(3 * active)
			a.loop.EvenShare(loader.Monotonic())
		}
	})
}
