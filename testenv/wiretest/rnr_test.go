// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// What a slow receiver costs: its application gives each of its 16 receives back after
// 300 µs, so that most messages find none at first.
func TestSlowReceiver(t *testing.T) {
	kinds(t, func(t *testing.T, selective bool) {
		for _, length := range []int{4000, 64000} {
			st := Stream{
				Kind: verbs.OpSend, Messages: 300, Len: length, PMTU: rocev2.PMTU1024, Selective: selective,
				Queue: 64, Timeout: 14, RetryCnt: 7,
			}
			w := st.build(func(s *Scenario) { s.MinRNRTimer, s.Receives, s.RecvDelay = 5, 16, 300*Microsecond })
			l := w.Nodes[0].PathTo(w.Nodes[1]).Watch(Millisecond)
			if err := w.Finish(); err != nil {
				t.Fatal(err)
			}
			needed := 300 * int(st.PMTU.Packets(uint32(length)))
			c := w.Nodes[0].Count
			t.Logf("%d bytes: %.2f packets sent for one needed (%d of %d), %d RNR NAKs, %d timeouts, %.2f Gbit/s",
				length, float64(l.Data)/float64(needed), l.Data, needed, c.RNRReceived, c.Timeouts, float64(300*length*8)/float64(w.Pairs[0][0].Last))
			limit := 1.5
			if selective {
				limit = 1.05
			}
			if float64(l.Data) > limit*float64(needed) {
				t.Errorf("%d packets sent for %d needed", l.Data, needed)
			}
			if c.Timeouts != 0 {
				t.Errorf("%d timeouts", c.Timeouts)
			}
		}
	})
}
