// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"fmt"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// What loss costs: data packets sent for one that was needed, at 5 % random loss
// in both directions.
func TestPacketsSentPerPacketDelivered(t *testing.T) {
	const loss = 0.05
	for _, kind := range []verbs.Op{verbs.OpWrite, verbs.OpSend, verbs.OpRead} {
		for _, c := range []struct {
			selective bool
			limit     float64
		}{{true, 1.15}, {false, 2}} {
			for _, pmtu := range []rocev2.PMTU{rocev2.PMTU1024, rocev2.PMTU4096} {
				for _, rate := range []int64{10e9, 100e9} {
					name := fmt.Sprintf("%s/selective=%v/PMTU%d/%dGbps", opName(kind), c.selective, pmtu.Bytes(), rate/1e9)
					t.Run(name, func(t *testing.T) {
						w := Stream{
							Kind: kind, Messages: 300, Len: 64000, PMTU: pmtu, Selective: c.selective,
							Queue: 16, Timeout: 14, RetryCnt: 7, Rate: rate,
						}.Build(1)
						for i, n := range w.Nodes {
							n.PathTo(w.Nodes[1-i]).Loss = loss
						}
						from := 0
						if kind == verbs.OpRead {
							from = 1
						}
						l := w.Nodes[from].PathTo(w.Nodes[1-from]).Watch(Millisecond)
						if err := w.Finish(); err != nil {
							t.Fatal(err)
						}
						needed := 300 * int(pmtu.Packets(64000))
						ratio := float64(l.Data) / float64(needed)
						c0 := w.Nodes[0].Count
						t.Logf("%.3f packets sent for one needed (%d of %d), %.2f Gbit/s, %d timeouts, %d probes, %d NAK, %d SACK",
							ratio, l.Data, needed, 300*64000*8/float64(w.Pairs[0][0].Last), c0.Timeouts, c0.TailProbes, c0.SeqErr, c0.SACKReceived)
						if ratio > c.limit {
							t.Errorf("%.3f packets sent for one needed, limit %v", ratio, c.limit)
						}
					})
				}
			}
		}
	}
}

// A lost burst does not raise the load of a sender that always has something to send:
// what has to be sent again is sent instead of something new. One that has not
// catches up with what was posted meanwhile, but never doubles its load.
func TestLostBurstDoesNotRaiseTheLoad(t *testing.T) {
	for _, selective := range []bool{true, false} {
		for _, every := range []qp.Time{0, 200 * Microsecond} {
			for _, burst := range []int{8, 64, 300} {
				t.Run(fmt.Sprintf("selective=%v/every=%dus/burst=%d", selective, every/Microsecond, burst), func(t *testing.T) {
					// The port is ten times faster than what 16 messages a round trip, or
					// one every 200 µs, need, so that it is not what limits the load.
					w := Stream{
						Kind: verbs.OpWrite, Messages: 400, Len: 64000, PMTU: rocev2.PMTU1024, Selective: selective,
						Queue: 16, Every: every, Timeout: 14, RetryCnt: 7, Rate: 100e9, Delay: 500 * Microsecond,
					}.Build(1)
					p := w.Nodes[0].PathTo(w.Nodes[1])
					const slice = 2 * Millisecond
					l := p.Watch(slice)
					at := 10 * Millisecond
					left := burst
					p.Drop = func(*rocev2.Packet) bool {
						if w.Now() < at || left == 0 {
							return false
						}
						left--
						return true
					}
					if err := w.Finish(); err != nil {
						t.Fatal(err)
					}
					before, after := l.Most(2*Millisecond, at), l.Most(at, w.Now())
					t.Logf("at most %d packets in 2 ms before, %d after; %d sent for %d; %d timeouts, %d probes", before, after,
						l.Data, 400*63, w.Nodes[0].Count.Timeouts, w.Nodes[0].Count.TailProbes)
					if left > 0 {
						t.Fatalf("%d packets of the burst were not lost", left)
					}
					limit := before
					if every != 0 { // what the application posted meanwhile is sent with it
						limit = 2*before - 1
					}
					if after > limit {
						t.Errorf("the load rose from %d to %d packets in 2 ms, limit %d", before, after, limit)
					}
				})
			}
		}
	}
}
