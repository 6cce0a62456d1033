// SPDX-License-Identifier: Apache-2.0

package xsk_test

import (
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Neither a packet, nor a batch, a kick, a wait or a wake-up costs an allocation.
func TestNoAllocations(t *testing.T) {
	for _, c := range []struct {
		name string
		size int
	}{{"one frame", 1100}, {"two frames", 4170}} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, topo.CableSpec{MTU: 9000}, xsk.Config{SG: true, TxPacket: 4170, BusyPoll: time.Microsecond})
			a, b := l.sets[0][0], l.sets[1][0]
			batch, scratch := b.NewBatch(64), make([]byte, 8192)
			sent, received := 0, 0
			receive := func() {
				for i := range b.Receive(batch) {
					p := batch.Packet(i)
					if len(p.Linear(scratch)) == c.size && p.Meta() != nil {
						received++
					}
				}
				batch.Release()
			}
			n := testing.AllocsPerRun(200, func() {
				for range a.Reserve(min(8, 128-(sent-received))) { // fewer than the rings of the veth pair hold
					a.Frame()[0] = 2
					a.Push(c.size)
					sent++
				}
				a.Submit()
				if err := a.Kick(); err != nil {
					t.Error(err)
				}
				b.Wake()
				if _, err := b.Wait(testkit.Patience); err != nil {
					t.Error(err)
				}
				receive()
			})
			if n != 0 {
				t.Errorf("%v allocations a round of 8 packets", n)
			}
			if sent == 0 {
				t.Error("no packet was sent")
			}
			testkit.Eventually(t, "all packets come", func() bool { // the kernel moves them at a time of its own
				receive()
				return sent == received
			})
		})
	}
}
