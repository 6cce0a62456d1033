// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
)

// S5.1: the grant arrives before any data, and the whole of a message of one bandwidth-delay
// product leaves at once, although the rate of the destination would take a second for it.
func TestPreCreditFirstFlight(t *testing.T) {
	const size = 12 * creditPacket
	w := newCreditNodes(t, 2)
	for _, s := range w.side {
		s.enable(creditConfig(100_000))
	}
	a, b := w.pair(w.side[0], w.side[1], rocev2.PMTU1024)
	all := w.trace(nil)
	w.after(3 * creditDelay)
	for i, e := range *all {
		if e.data() || i > 4 {
			t.Fatalf("packet %d after the connection is %v", i, e.op)
		}
		t.Log(e.at, e.from, e.to, e.op)
	}
	t.Logf("%+v", b.senders())
	a.dest(b.side).SetRateBps(1_000_000)
	start := w.net.Now()
	*all = nil
	data := a.fill(0, size, 1)
	a.send(size)
	a.poll(1)
	b.wants(0, data, "write")
	for _, e := range *all {
		t.Log(e.at-start, e.from, e.to, e.op, e.bytes, e.credited(), e.stamp.Credit)
	}
	t.Log(w.net.Now()-start, a.credits().Used(), b.credits().Delivered())
	b.conserved(100_000)
}
