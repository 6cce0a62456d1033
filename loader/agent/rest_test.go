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
		// rests makes a tick, a second after the last event, and reports whether it begins a rest. An
		// event ends that.
		rests := func() bool {
			t.Helper()
			now += second
			_, err := a.tick(now)
			must(t, err)
			_, rested := a.rest.Wake(now)
			return rested
		}
		if rests() {
			t.Error("an agent without an engine rests")
		}
		lease, err := a.att.TakeEngineLease()
		must(t, err)
		defer lease.Close()
		if !rests() {
			t.Fatal("an agent with an engine and without traffic does not rest")
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
		if rests() {
			t.Error("the tick that evaluates the traffic begins a rest")
		}
		// Traffic while there is no rest needs no event.
		_, err = lease.Sync(slots)
		must(t, err)
		if n := events.AvailableBytes(); n != 0 {
			t.Errorf("%d bytes of events", n)
		}
	})
}
