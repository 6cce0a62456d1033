// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"pgregory.net/rapid"
)

// The window against a map of what was accepted.
func TestWindowModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w window
		accepted := map[uint64]bool{}
		highest := uint64(0)
		// Near the end of the range the highest counter must not wrap.
		start := rapid.SampledFrom([]uint64{0, 1 << 32, math.MaxUint64 - 3*Window}).Draw(t, "start")
		for range rapid.IntRange(1, 300).Draw(t, "packets") {
			var c uint64
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				c = highest + rapid.Uint64Range(1, 3).Draw(t, "step")
			case 1:
				c = highest - rapid.Uint64Range(0, 300).Draw(t, "behind")
			case 2: // around the edge
				c = highest - Window + rapid.Uint64Range(0, 4).Draw(t, "edge") - 2
			case 3:
				c = max(start, highest) + rapid.Uint64Range(0, 3*Window/300).Draw(t, "jump")*90
			}
			want := error(nil)
			switch {
			case c > highest:
			case c == 0 || highest-c >= Window:
				want = ErrOld
			case accepted[c]:
				want = ErrReplay
			}
			if got := w.check(c); got != want {
				t.Fatalf("counter %d, highest %d: %v, want %v", c, highest, got, want)
			}
			if want == nil {
				w.accept(c)
				accepted[c] = true
				highest = max(highest, c)
			}
		}
	})
}

// Packets that overtake each other within the window are all accepted, and each once.
func TestReorderWithinWindow(t *testing.T) {
	s, o := pair(t, AES128GCM, Limits{})
	packets := make([][]byte, Window)
	for i := range packets {
		packets[i] = build(t, s, rocev2.Datagram{Opcode: rocev2.RCSendOnly, DestQP: 2, PSN: rocev2.PSN(i)}, random(8))
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(Window)
	for _, i := range order {
		if _, err := open(o, 0, packets[i]); err != nil {
			t.Fatalf("packet %d: %v", i, err)
		}
	}
	for _, i := range order { // the capture, replayed
		if _, err := open(o, 0, packets[i]); err != ErrReplay {
			t.Fatalf("packet %d again: %v", i, err)
		}
	}
	late := build(t, s, rocev2.Datagram{Opcode: rocev2.RCAck, DestQP: 2}, nil)
	if _, err := open(o, 0, late); err != nil {
		t.Fatal(err)
	}
	if _, err := open(o, 0, packets[0]); err != ErrOld {
		t.Fatalf("packet behind the window: %v", err)
	}
	if c := o.Counters(); c.Opened != Window+1 || c.Replay != Window || c.Old != 1 {
		t.Errorf("counters %+v", c)
	}
}

// A forged packet with a high counter does not move the window.
func TestForgedPacketMovesNothing(t *testing.T) {
	s, o := pair(t, AES128GCM, Limits{})
	b := build(t, s, rocev2.Datagram{Opcode: rocev2.RCSendOnly, DestQP: 2}, random(8))
	p, _ := rocev2.ParseIP(b)
	for _, change := range []func(head []byte){
		func(head []byte) { head[4] = 0xFF }, // counter
		func(head []byte) { head[3] = 1 },    // epoch
	} {
		body := append([]byte(nil), p.Body()...)
		change(body[rocev2.BTHLen:])
		if _, err := o.Open(0, body); err != ErrForged {
			t.Fatal(err)
		}
	}
	if o.Epoch() != 0 || o.present.window.highest != 0 || o.next.window.highest != 0 {
		t.Errorf("epoch %d, windows at %d and %d", o.Epoch(), o.present.window.highest, o.next.window.highest)
	}
	if _, err := open(o, 0, b); err != nil {
		t.Fatal(err)
	}
}
