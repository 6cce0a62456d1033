// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A peer with gaps in many queue pairs does not take all buffers: another one still buffers packets, and gets an
// equal part as the buffers of the first are used no more.
func TestReorderShares(t *testing.T) {
	const packets = 64
	pool := NewReorderPool(packets)
	of := func(share *ReorderPool) *target {
		return newTarget(t, verbs.RC, selective, func(c *Config, _ *verbs.Attr) { c.Reorder = share })
	}
	greedy, other := pool.Share(), pool.Share()
	var hogs []*target
	for range 8 {
		x := of(greedy)
		for n := 1; n <= 20; n++ {
			x.put(n, false)
		}
		hogs = append(hogs, x)
	}
	if used := greedy.InUse(); used < packets/2 || used > packets*3/4 {
		t.Errorf("a peer alone has %d of %d buffers, want more than half and not the reserve", used, packets)
	}
	y := of(other)
	for n := 1; n <= 20; n++ {
		y.put(n, false)
	}
	if n := other.InUse(); n < packets/6 || n > packets/5 {
		t.Errorf("the only queue pair of another peer has %d buffers of %d, want the part of one of 5", n, packets)
	}
	for _, x := range hogs {
		if err := x.q.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState); err != nil {
			t.Fatal(err)
		}
	}
	if greedy.InUse() != 0 || pool.InUse() != other.InUse() || pool.peers != 1 || pool.queues != 1 {
		t.Errorf("afterwards the first has %d buffers, the pool %d, of %d peers and %d queue pairs", greedy.InUse(), pool.InUse(), pool.peers, pool.queues)
	}
	for n := 1; n <= 40; n++ {
		y.put(n, false)
	}
	if other.InUse() != 40 {
		t.Errorf("alone, the other one has %d buffers, want 40", other.InUse())
	}
	for n := range 41 {
		y.put(n, true)
	}
	if pool.InUse() != 0 || pool.peers != 0 || pool.queues != 0 {
		t.Errorf("at the end %d buffers are in use, by %d peers and %d queue pairs", pool.InUse(), pool.peers, pool.queues)
	}
}

// Of one queue pair, a share takes no more than of many.
func TestReorderShareOfQueuePair(t *testing.T) {
	pool := NewReorderPool(64)
	share := pool.Share()
	for n := range 64 {
		if b := share.buffer(n); b == nil {
			if n < 32 {
				t.Errorf("a queue pair alone has %d of 64", n)
			}
			return
		}
	}
	t.Error("one queue pair has all buffers")
}

// Whatever peers take and give back, there is room for one more with nothing, the counts are sums, and nothing
// exceeds the pool.
func TestReorderSharesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		packets := rapid.IntRange(8, 200).Draw(t, "packets")
		pool := NewReorderPool(packets)
		peers := rapid.IntRange(1, 5).Draw(t, "peers")
		shares, has := make([]*ReorderPool, peers), make([]int, peers)
		for i := range shares {
			shares[i] = pool.Share()
		}
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			i := rapid.IntRange(0, peers-1).Draw(t, "peer")
			if has[i] > 0 && rapid.IntRange(0, 3).Draw(t, "give") == 0 {
				shares[i].put(make([]byte, 0, 1))
				has[i]--
			} else if shares[i].buffer(0) != nil {
				has[i]++
			}
			sum, active := 0, 0
			for j, n := range has {
				if sum += n; n > 0 {
					active++
				}
				if shares[j].InUse() != n {
					t.Fatalf("peer %d has %d, want %d", j, shares[j].InUse(), n)
				}
			}
			if pool.InUse() != sum || pool.peers != active || sum > packets {
				t.Fatalf("%d in use of %d, want %d; %d peers, want %d", pool.InUse(), packets, sum, pool.peers, active)
			}
			if active < peers && packets >= 8*peers && pool.Share().buffer(0) == nil {
				t.Fatalf("no buffer for a peer that has none: %v of %d", has, packets)
			} else if active < peers && packets >= 8*peers {
				pool.peers-- // that buffer was not kept
				pool.buffers = append(pool.buffers, make([]byte, 0, 1))
			}
		}
	})
}
