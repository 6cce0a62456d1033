// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
)

// An agent with nothing to evaluate rests while there is an engine. The first traffic ends that: the
// data plane reports it, and the next tick evaluates it.
func TestRest(t *testing.T) {
	onAttached(t, loader.Options{}, func(t *testing.T, _ netlink.Link, o loader.Options) {
		must := func(t *testing.T, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		a := mustOpen(t, o)
		events, err := ringbuf.NewReader(a.att.Maps.Events)
		must(t, err)
		defer events.Close()
		events.SetDeadline(time.Now().Add(2 * time.Minute))
		now := loader.Monotonic()
		tick := func() time.Duration {
			t.Helper()
			next, err := a.tick(now)
			must(t, err)
			now += uint64(next)
			return next
		}
		usual := tick()
		lease, err := a.att.TakeEngineLease()
		must(t, err)
		defer lease.Close()
		rest := tick()
		if rest <= usual {
			t.Fatalf("ticks without traffic are %v apart, and %v without an engine", rest, usual)
		}
		slots := []bpf.EngineSlot{{Key: keyN(2), TxPackets: 1, TxBytes: 100}}
		_, err = lease.Sync(slots)
		must(t, err)
		for reported := false; !reported; {
			rec, err := events.Read()
			must(t, err)
			e, ok := bpf.EventOf(rec.RawSample)
			reported = ok && e.Type == bpf.EventActive
		}
		next, rested := a.rest.Wake(now)
		if !rested || next >= usual {
			t.Errorf("the report ends a rest: %v; the next tick is in %v", rested, next)
		}
		if next := tick(); next > usual {
			t.Errorf("the tick that evaluates the traffic is followed by one in %v", next)
		}
		// Traffic while there is no rest needs no event.
		_, err = lease.Sync(slots)
		must(t, err)
		if n := events.AvailableBytes(); n != 0 {
			t.Errorf("%d bytes of events", n)
		}
	})
}
