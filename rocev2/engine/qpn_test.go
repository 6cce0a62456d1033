// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

type owner struct{ num uint32 }

// Numbers have the top bit, are found, and come back as others.
func TestNumbers(t *testing.T) {
	var tab qpnTable[owner]
	last := map[uint32]uint32{} // numbers by slot
	for i := range 5000 {
		x := &owner{}
		n, err := tab.Alloc(x)
		slot := n & qpnSlotMask
		if err != nil || !ofEngine(n) || last[slot] == n {
			t.Fatalf("%d: %#x, %v, the last one of its slot was %#x", i, n, err, last[slot])
		}
		x.num, last[slot] = n, n
		if tab.Lookup(n) != x || tab.Lookup(n^1<<qpnSlotBits) != nil {
			t.Fatalf("%#x is not found, or others are", n)
		}
		if i%2 == 0 {
			tab.Free(n)
			if tab.Lookup(n) != nil {
				t.Fatalf("%#x is still there", n)
			}
		}
	}
	for _, n := range []uint32{0, 1, 17, 0x20000, 0x7FFFFF, rocev2.ControlQPN, 0xFFFFFF, 0x1000000} {
		if ofEngine(n) {
			t.Errorf("%#x is no number of an engine", n)
		}
	}
	for {
		x := &owner{}
		n, err := tab.Alloc(x)
		if err != nil {
			if !errors.Is(err, verbs.ErrTooMany) {
				t.Errorf("%v, want ErrTooMany", err)
			}
			break
		}
		x.num = n
	}
	if tab.Len() != maxQPNs {
		t.Errorf("%d queue pairs fit, want %d", tab.Len(), maxQPNs)
	}
	n := 0
	for x := range tab.All() {
		if tab.Lookup(x.num) != x {
			t.Fatalf("All hands out %#x, which is not found", x.num)
		}
		n++
	}
	if n != maxQPNs {
		t.Errorf("All hands out %d owners, want %d", n, maxQPNs)
	}
}

// A number that is returned twice, or was never allocated, changes nothing.
func TestFreeUnused(t *testing.T) {
	var tab qpnTable[owner]
	n, _ := tab.Alloc(&owner{})
	tab.Free(n ^ 1<<qpnSlotBits)
	if tab.Len() != 1 {
		t.Error("the number of another generation was returned")
	}
	tab.Free(n)
	tab.Free(n)
	tab.Free(n + 1)
	if tab.Len() != 0 {
		t.Errorf("%d in use", tab.Len())
	}
}

// A slot that is used again has another number, and never a reserved one.
func TestGenerations(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, slot := range []uint32{0, 0xFFFD, 0xFFFE, 0xFFFF} {
		for _, mode := range []uint32{0, oooBit} {
			tab := qpnTable[owner]{Rand: r.Uint32}
			seen := map[uint32]bool{}
			for n, i := uint32(0), 0; i < 2000; i++ {
				last := n
				n = tab.number(last, slot, mode)
				if n == last || !ofEngine(n) || isOutOfOrder(n) != (mode != 0) || n&qpnSlotMask != slot {
					t.Fatalf("slot %#x, mode %#x: %#x after %#x", slot, mode, n, last)
				}
				seen[n] = true
			}
			want := 64
			if mode != 0 && slot >= 0xFFFE {
				want = 63
			}
			if len(seen) != want {
				t.Errorf("slot %#x, mode %#x: %d numbers, want %d", slot, mode, len(seen), want)
			}
		}
	}
}

// Numbers are random: the next one is not told by those before, and each bit of it changes.
func TestUnpredictable(t *testing.T) {
	var tab qpnTable[owner]
	const n = 4096
	var ones [24]int
	near, last := 0, uint32(0)
	for range n {
		x, err := tab.Alloc(&owner{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range ones {
			ones[i] += int(x >> i & 1)
		}
		if d := int32(x - last); d > -256 && d < 256 {
			near++
		}
		last = x
	}
	for i, k := range ones[:22] {
		if k < n*2/5 || k > n*3/5 {
			t.Errorf("bit %d is set in %d of %d numbers", i, k, n)
		}
	}
	if near > n/100 {
		t.Errorf("%d of %d numbers are near the one before", near, n)
	}
}

// A number tells whether its queue pair is in out-of-order mode, also where a slot changes between both.
func TestOutOfOrderNumbers(t *testing.T) {
	var tab qpnTable[owner]
	for i := range 3072 {
		x := &owner{}
		alloc := tab.Alloc
		if i%3 == 0 {
			alloc = tab.AllocOutOfOrder
		}
		n, err := alloc(x)
		if err != nil || !ofEngine(n) || isOutOfOrder(n) != (i%3 == 0) || tab.Lookup(n) != x {
			t.Fatalf("%d: %#x, %v", i, n, err)
		}
		tab.Free(n)
	}
	if isOutOfOrder(1<<22) || isOutOfOrder(rocev2.ControlQPN) || isOutOfOrder(0xFFFFFF) {
		t.Error("numbers of nobody count")
	}
}

// A number tells the shard of its queue pair. Shards have different numbers, the same count of them each, and their
// low bits are random.
func TestShards(t *testing.T) {
	for _, shards := range []uint32{1, 2, 64} {
		seen := map[uint32]bool{}
		for shard := range shards {
			tab := qpnTable[owner]{Shard: shard, Shards: shards}
			low := map[uint32]bool{}
			for {
				x := &owner{}
				n, err := tab.Alloc(x)
				if errors.Is(err, verbs.ErrTooMany) {
					break
				}
				if err != nil || !ofEngine(n) || ShardOf(n, shards) != shard || seen[n] || tab.Lookup(n) != x {
					t.Fatalf("shard %d of %d: %#x, %v, twice: %v", shard, shards, n, err, seen[n])
				}
				if tab.Lookup(n^(maxQPNs/shards)) != nil && shards > 1 {
					t.Fatalf("shard %d of %d has the queue pair of another one", shard, shards)
				}
				seen[n], low[n%64] = true, true
			}
			if len(low) != 64 || tab.Slots() != int(maxQPNs/shards) {
				t.Errorf("shard %d of %d: %d values of the lowest 6 bits, %d slots", shard, shards, len(low), tab.Slots())
			}
		}
		if len(seen) != maxQPNs {
			t.Errorf("%d shards: %d queue pairs fit, want %d", shards, len(seen), maxQPNs)
		}
	}
}
