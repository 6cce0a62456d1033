// SPDX-License-Identifier: Apache-2.0

package qpn

import (
	"errors"
	"fmt"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

type owner struct{ num uint32 }

// Numbers have the top bit, are found, and come back as others.
func TestNumbers(t *testing.T) {
	var tab Table[owner]
	seen := map[uint32]bool{}
	for i := range 5000 {
		x := &owner{}
		n, err := tab.Alloc(x)
		if err != nil || !OfEngine(n) || seen[n] {
			t.Fatalf("%d: %#x, %v, twice: %v", i, n, err, seen[n])
		}
		x.num, seen[n] = n, true
		if tab.Lookup(n) != x || tab.Lookup(n^1<<slotBits) != nil || tab.Lookup(n|0x7FFF) == x && n&0x7FFF != 0x7FFF {
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
		if OfEngine(n) {
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
	if tab.Len() != Max {
		t.Errorf("%d queue pairs fit, want %d", tab.Len(), Max)
	}
	n := 0
	for x := range tab.All() {
		if tab.Lookup(x.num) != x {
			t.Fatalf("All hands out %#x, which is not found", x.num)
		}
		n++
	}
	if n != Max {
		t.Errorf("All hands out %d owners, want %d", n, Max)
	}
}

// A number that is returned twice, or was never allocated, changes nothing.
func TestFreeUnused(t *testing.T) {
	var tab Table[owner]
	n, _ := tab.Alloc(&owner{})
	tab.Free(n ^ 1<<slotBits)
	if tab.Len() != 1 {
		t.Error("the number of another generation was returned")
	}
	tab.Free(n)
	tab.Free(n)
	tab.Free(n + 1)
	if tab.Len() != 0 || len(tab.free) != 1 {
		t.Errorf("%d in use, %d free slots; want 0 and 1", tab.Len(), len(tab.free))
	}
}

// The numbers of a slot repeat after 64 generations, or 63 where the last one is reserved.
func TestGenerations(t *testing.T) {
	for _, c := range []struct {
		slot, mode uint32
		want       int
	}{{0, 0, 64}, {0xFFFE, 0, 64}, {0, orderBit, 64}, {0xFFFD, orderBit, 64}, {0xFFFE, orderBit, 63}, {0xFFFF, orderBit, 63}} {
		first := engineBit | c.mode | c.slot
		n, generations := nextGeneration(first, c.mode), 1
		for ; n != first; n = nextGeneration(n, c.mode) {
			if generations++; generations > 200 || !OfEngine(n) || OutOfOrder(n) != (c.mode != 0) {
				t.Fatalf("slot %#x: number %#x after %d generations", c.slot, n, generations)
			}
		}
		if generations != c.want {
			t.Errorf("slot %#x, mode %#x: %d generations, want %d", c.slot, c.mode, generations, c.want)
		}
	}
}

// A number tells whether its queue pair is in out-of-order mode, also where a slot changes between both.
func TestOutOfOrder(t *testing.T) {
	var tab Table[owner]
	for i := range 3 * reuseAfter {
		x := &owner{}
		alloc := tab.Alloc
		if i%3 == 0 {
			alloc = tab.AllocOutOfOrder
		}
		n, err := alloc(x)
		if err != nil || !OfEngine(n) || OutOfOrder(n) != (i%3 == 0) || tab.Lookup(n) != x {
			t.Fatalf("%d: %#x, %v", i, n, err)
		}
		tab.Free(n)
	}
	if OutOfOrder(1<<22) || OutOfOrder(rocev2.ControlQPN) || OutOfOrder(0xFFFFFF) {
		t.Error("numbers of nobody count")
	}
}

func ExampleTable() {
	type queuePair struct{ name string }
	var tab Table[queuePair]
	n, _ := tab.Alloc(&queuePair{"first"})
	fmt.Printf("%#x is %s\n", n, tab.Lookup(n).name)
	tab.Free(n)
	fmt.Println("after Free:", tab.Lookup(n))
	// Output:
	// 0x800000 is first
	// after Free: <nil>
}
