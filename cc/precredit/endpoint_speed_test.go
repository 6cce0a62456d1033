// SPDX-License-Identifier: Apache-2.0

package precredit

import "testing"

// roundTrips returns a function that has a flow post three packets, which leave on pre-credit, arrive, and are
// acknowledged.
func roundTrips() (round func(), a, b *testPort) {
	a, b = newEndpoints(100_000)
	f := a.flow(0, "f", 1000)
	a.peer.end.Send(0)
	w := Work{First: true, Bytes: 3000, Features: Features{TotalBytes: 3000, PostedBytes: 3000, RegionBytes: 3000}}
	now := int64(0)
	return func() {
		now += testRTT
		*a.sent, a.credits, a.released = (*a.sent)[:0], a.credits[:0], a.released[:0]
		a.peer.Post(now, f, w)
		a.peer.end.Send(now)
		for _, c := range a.credits {
			b.peer.Data(now, Arrival{Bytes: 1000, Credit: c, HasCredit: true, Fresh: true})
		}
		c, ok := b.peer.SentAck(now)
		before := a.inFlight
		a.inFlight = 0
		a.peer.Answer(now, f, Answer{Credit: c, HasCredit: ok, RTTNs: testRTT, InFlight: before})
		a.peer.end.Step(now)
		b.peer.end.Step(now)
	}, a, b
}

// What happens to each packet allocates no memory.
func TestEndpointAllocatesNothing(t *testing.T) {
	round, a, b := roundTrips()
	if n := testing.AllocsPerRun(1000, round); n != 0 {
		t.Errorf("%v allocations in a round trip", n)
	}
	// AllocsPerRun has run one more. The first packet of the flow was never delivered: it is lost.
	if s := b.peer.end.Receiver.Stats(); len(*a.sent) != 3 || s.Drained != 1001*3000 {
		t.Errorf("%d packets in the last round trip, %d bytes delivered in all", len(*a.sent), s.Drained)
	}
}

func BenchmarkEndpoint(b *testing.B) {
	round, _, _ := roundTrips()
	b.ReportAllocs()
	for b.Loop() {
		round()
	}
}
