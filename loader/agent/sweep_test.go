// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
)

func TestIdle(t *testing.T) {
	limit := uint64(idleLimit)
	for _, c := range []struct {
		name        string
		d           bpf.DestRegs
		now, offset uint64
		want        bool
	}{
		{"never used", bpf.DestRegs{LastTxNs: 5}, limit + 6, 0, true},
		{"at the limit", bpf.DestRegs{LastTxNs: 5}, limit + 5, 0, false},
		{"it still sends", bpf.DestRegs{LastTxNs: 5, LastRxNs: limit}, limit + 6, 0, false},
		{"stamps on CLOCK_TAI", bpf.DestRegs{LastTxNs: 5, LastRxNs: 5 + 37e9}, limit + 6, 37e9, true},
		{"stamps on CLOCK_TAI, it still sends", bpf.DestRegs{LastTxNs: 5, LastRxNs: limit + 37e9}, limit + 6, 37e9, false},
		{"touched after the clock was read", bpf.DestRegs{LastTxNs: limit + 9}, limit + 6, 0, false},
	} {
		if got := idle(&c.d, c.now, c.offset, idleLimit); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if idleLimit < time.Minute {
		t.Error("an entry must outlive the pauses of its traffic")
	}
}

func TestIdleLimitOf(t *testing.T) {
	const size = 65536
	for dests, want := range map[int]time.Duration{
		0: idleLimit, size / 2: idleLimit, size * 3 / 4: idleLimit / 2, size * 7 / 8: idleLimit / 4, size - 1: leastIdle, size: leastIdle, size + 5: leastIdle,
	} {
		if got := idleLimitOf(dests, size); got != want {
			t.Errorf("%d of %d: %v, want %v", dests, size, got, want)
		}
	}
}

// Somebody has this host send to as many addresses as the table has entries. Idle entries make room in one
// sweep, until the table is half full. Those of peers with traffic stay, and new destinations get entries (S10).
func TestFullTableMakesRoom(t *testing.T) {
	const size = 4 * sweepBatch
	onAttached(t, loader.Options{MaxDests: size}, func(t *testing.T, l netlink.Link, o loader.Options) {
		a := mustOpen(t, o)
		if err := a.prepare(); err != nil {
			t.Fatal(err)
		}
		now := loader.Monotonic() + uint64(time.Hour)
		almost := uint64(idleLimit - 10*time.Second)
		known, late := netip.MustParseAddr("10.53.1.1"), netip.MustParseAddr("10.53.1.2")
		put := func(peer netip.Addr, used uint64) {
			if err := a.att.Maps.DestTable.Put(bpf.KeyOf(peer), &bpf.DestRegs{Node: 1, LastTxNs: used}); err != nil {
				t.Fatal(err)
			}
			a.dests++
		}
		put(known, now)
		for i := range size - 1 {
			put(netip.AddrFrom4([4]byte{10, 53, 2 + byte(i>>8), byte(i)}), now-almost)
		}
		a.sweep.some(a, now)
		left := entriesOf(t, a)
		if left > size/2+size/50 || left < size/2-sweepBatch || a.dests != left {
			t.Errorf("%d entries of %d are left, and %d count", left, size, a.dests)
		}
		if _, found, err := a.att.Lookup(known); err != nil || !found {
			t.Errorf("the entry of a peer with traffic: %v, %v", found, err)
		}
		create(t, a, late, now)
		a.handleNewDest(bpf.KeyOf(late))
		if _, found, err := a.att.Lookup(late); err != nil || !found {
			t.Errorf("a new destination: %v, %v", found, err)
		}
	})
}

// entriesOf counts the entries of the table.
func entriesOf(t *testing.T, a *Agent) (n int) {
	t.Helper()
	var key bpf.DestKey
	var d bpf.DestRegs
	all := a.att.Maps.DestTable.Iterate()
	for all.Next(&key, &d) {
		n++
	}
	if err := all.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}
