// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"maps"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/cm"
)

// Whatever the kernel and the interface do, and whatever fails: after an update that succeeded, the
// messages to all addresses are the manager's, or none is.
func TestRestOwner(t *testing.T) {
	addrs := []netip.Addr{
		netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("::ffff:10.0.0.2"), netip.MustParseAddr("fd00::1"), {},
	}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var failing bool
		var now []netip.Addr
		steered := map[netip.Addr]bool{}
		r := restOwner{
			addresses: func() []netip.Addr { return now },
			steer: func(s cm.Steer) error {
				a := s.Key.(cm.KeyRest).Local
				switch {
				case failing && rng.IntN(2) == 0:
					return errors.New("the map is full")
				case s.Off && !steered[a]:
					t.Errorf("%s is not steered", a)
				case s.Off:
					delete(steered, a)
				default:
					steered[a] = true
				}
				return nil
			},
		}
		for range 30 {
			now = nil
			failing = rng.IntN(3) == 0
			kernel := rng.IntN(3) == 0
			for _, a := range addrs {
				if rng.IntN(2) == 0 {
					now = append(now, a)
				}
			}
			r.update(kernel)
			want := map[netip.Addr]bool{}
			for _, a := range now {
				if a.IsValid() && !kernel {
					want[a.Unmap()] = true
				}
			}
			if !failing && !maps.Equal(steered, want) {
				t.Fatalf("seed %d: %v, want %v", seed, steered, want)
			}
		}
	}
}

// The kernel is asked again when its answer is old, and not for each message.
func TestRecent(t *testing.T) {
	asked := 0
	f := recent(time.Hour, func() bool { asked++; return asked == 1 })
	for range 3 {
		if !f() {
			t.Fatal("it was asked again")
		}
	}
	f = recent(-1, func() bool { asked++; return asked%2 == 0 })
	if first, second := f(), f(); first == second {
		t.Error("it was not asked again")
	}
}
