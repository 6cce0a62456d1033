// SPDX-License-Identifier: Apache-2.0

package precredit

import "testing"

// Step reports the losses since the last one with one CREDIT_RETURN, gives up what was not used for its life, and
// has the receiver do what is due.
func TestEndpointStep(t *testing.T) {
	a, _ := newEndpoints(1000)
	idle, end := a.second(1000), a.peer.end
	a.peer.Connect(&Flow{Packet: 1000})
	for _, step := range []struct {
		now      int64
		losses   int
		released bool
		returns  int // in all
	}{
		{1, 0, false, 0},
		{2, 2, false, 1},
		{2 + reportGap, 0, false, 1},
		{3 + reportGap, 1, false, 2},
		{100*ms - 1, 0, false, 2},
		{100 * ms, 0, true, 3},
		{101 * ms, 0, false, 3},
	} {
		for range step.losses {
			a.peer.NoteLoss()
		}
		if released := end.Step(step.now); released != step.released || len(a.returns) != step.returns {
			t.Errorf("at %d: released %v, returns %+v; want %v, %d", step.now, released, a.returns, step.released, step.returns)
		}
	}
	if r := a.returns[len(a.returns)-1]; r.Void != 1000 || !r.Expired {
		t.Errorf("return %+v after the life of the grant", r)
	}
	if len(idle.returns) != 1 {
		t.Errorf("returns %+v to a peer without flows, want the one for its grant", idle.returns)
	}
	a.exchange(101 * ms)
	if at := end.Deadline(); at != 102*ms || end.HasGrants() || end.Receiver.Share(2) == 0 {
		t.Errorf("deadline %d, grants %v, share %d before the receiver's", at, end.HasGrants(), end.Receiver.Share(2))
	}
	if end.Step(102 * ms); !end.HasGrants() || end.Receiver.Share(2) != 0 {
		t.Errorf("grants %v, share %d at the receiver's deadline", end.HasGrants(), end.Receiver.Share(2))
	}
}

// Counters of a peer stay when the peer is started again, and when it is forgotten.
func TestEndpointKeepsCounters(t *testing.T) {
	first, _ := newEndpoints(1000)
	a, end := first.second(14_000), first.peer.end
	check := func(when string, n uint64) {
		t.Helper()
		if s := end.SenderStats(); s.Waits != n || s.Ramps != n || end.Counts.Used != 13_000*n || end.Counts.Returned != 1000*n {
			t.Errorf("%s: %+v, %+v; want %d flows that waited", when, s, end.Counts, n)
		}
	}
	live := func() { // a flow that sends a bandwidth-delay product and waits until a timeout
		f := a.flow(0, "f", 1<<20)
		end.Send(0)
		a.peer.MayStart(1, f)
		a.peer.Timeout(false)
		a.peer.TurnOff()
		a.peer.Disconnect(f)
		a.inFlight = 0
	}
	live()
	check("turned off", 1)
	a.peer.Renew()
	check("started again", 1)
	a.grant(14_000)
	live()
	check("turned off again", 2)
	end.Forget(func(p *Peer) bool { return p == a.peer })
	check("forgotten", 2)
	if len(end.Peers()) != 1 || end.Peer(3) != nil || end.Peer(2) != first.peer {
		t.Errorf("peers %v, number 2 is %p, 3 is %p", end.Peers(), end.Peer(2), end.Peer(3))
	}
}
