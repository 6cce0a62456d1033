// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var services = []verbs.QPType{verbs.RC, verbs.UC, verbs.UD}

func attack(c Choices, packets int) error {
	h := NewHostile(c, services[c.Choose("service", len(services))])
	for range packets {
		d := h.Packet(c)
		h.Send(c, &d)
		if h.Err() != nil {
			return fmt.Errorf("%w\nafter %+v", h.Err(), d)
		}
	}
	if err := h.Behave(); err != nil {
		return err
	}
	h.node.check()
	return h.Err()
}

// Whatever packets a peer sends, a queue pair neither panics nor writes anywhere
// else than where it may, and works afterwards or says that it is in error.
func TestHostilePeer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if err := attack(drawn{t}, rapid.IntRange(1, 20).Draw(t, "packets")); err != nil {
			t.Fatal(err)
		}
	})
	seeds := uint64(2000)
	for seed := range seeds {
		if err := attack(Seeded(seed), 40); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// fuzzed makes choices out of a fuzzer's bytes; when they end, the simplest.
type fuzzed struct{ b []byte }

func (f *fuzzed) Choose(_ string, n int) int {
	v := 0
	for m := n - 1; m > 0 && len(f.b) > 0; m >>= 8 {
		v = v<<8 | int(f.b[0])
		f.b = f.b[1:]
	}
	return v % n
}

func FuzzHostilePeer(f *testing.F) {
	for seed := range uint64(8) {
		b := make([]byte, 400)
		for i := range b {
			b[i] = byte((uint64(i) + seed) * (2*seed + 7) >> 2)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := attack(&fuzzed{b}, 1+len(b)/40); err != nil {
			t.Fatal(err)
		}
	})
}
