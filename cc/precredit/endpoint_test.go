// SPDX-License-Identifier: Apache-2.0

package precredit

import (
	"fmt"
	"testing"
)

// testPort is a host with one peer. Its packets have 1000 bytes.
type testPort struct {
	peer     *Peer
	other    *testPort
	inFlight uint64
	results  []Result  // results of the next SendData, then ResultSent without a packet is ResultNone
	sent     *[]string // flows of the packets that have left, by name; the ports of an endpoint have one list
	credits  []Credit
	released []*Flow
	window   uint32
	returns  []Return
}

func (p *testPort) InFlight() (uint64, bool) { return p.inFlight, p.inFlight > 0 }
func (p *testPort) AheadOfRate(int64) uint32 { return 0 }
func (p *testPort) Apply(window uint32, flows []*Flow) {
	p.window, p.released = window, append(p.released, flows...)
}
func (p *testPort) SendReturn(r Return) { p.returns = append(p.returns, r) }

func (p *testPort) SendData(now int64, f *Flow) Result {
	r := ResultSent
	if len(p.results) > 0 {
		r, p.results = p.results[0], p.results[1:]
	}
	if r != ResultSent && r != ResultLast {
		return r
	}
	*p.sent = append(*p.sent, f.Data.(string))
	if c, ok := p.peer.Sent(now, f, 1000, true, false); ok {
		p.credits = append(p.credits, c)
		p.inFlight += 1000
	}
	return r
}

// endpointSender are the parameters of the senders of endpoints.
var endpointSender = SenderParams{
	LinkBps: 1e10, RTTNs: testRTT, BDPBytes: 12_500, MaxWaitNs: ms, SmallBias: DefaultSmallBias, AgingStep: DefaultAgingStep,
}

// newEndpoints are two endpoints that are each other's peer, number 1 and 2, with pre-credit on.
func newEndpoints(limit uint32) (a, b *testPort) {
	a, b = &testPort{sent: new([]string)}, &testPort{sent: new([]string)}
	a.other, b.other = b, a
	for i, p := range []*testPort{a, b} {
		e := NewEndpoint(testParams(limit, limit, 1000), 1)
		p.peer = e.NewPeer(SenderID(2-i), p, endpointSender)
		p.peer.TurnOn()
		e.TakeFlows(0)
	}
	a.exchange(0)
	b.exchange(0)
	return a, b
}

// second adds a peer to the endpoint, with pre-credit on and a grant.
func (p *testPort) second(limit uint32) *testPort {
	q := &testPort{sent: p.sent}
	q.peer = p.peer.end.NewPeer(3, q, endpointSender)
	q.grant(limit)
	return q
}

// grant turns pre-credit on, and has the peer grant for the first time.
func (p *testPort) grant(limit uint32) {
	p.peer.TurnOn()
	p.peer.Grant(0, Grant{Epoch: 1, Limit: limit, Seq: 1, Open: true, LifeNs: 100 * ms})
}

// exchange has the other host receive the grants, and this one the returns that answer them.
func (p *testPort) exchange(now int64) {
	for {
		_, g, ok := p.peer.end.NextGrant(now)
		if !ok {
			return
		}
		p.other.peer.Grant(now, g)
		for _, r := range p.other.returns {
			p.peer.Return(now, r)
		}
		p.other.returns = nil
	}
}

// flow connects a flow and posts n bytes to it.
func (p *testPort) flow(now int64, name string, n uint64) *Flow {
	f := &Flow{Data: name, Packet: 1000}
	p.peer.Connect(f)
	p.peer.Post(now, f, Work{First: true, Bytes: n, Features: Features{TotalBytes: n, PostedBytes: n, RegionBytes: n}})
	return f
}

// What a flow sends on pre-credit arrives as such, a large flow waits for feedback after it, and the first ACK
// has it send with a window. At the end all is back.
func TestEndpoints(t *testing.T) {
	a, b := newEndpoints(5000)
	f := a.flow(0, "f", 1<<20)
	a.peer.end.Send(0)
	if len(*a.sent) != 5 || len(a.credits) != 5 || a.peer.end.Counts.Used != 5000 {
		t.Fatalf("%v on pre-credit, counters %+v, want 5 packets", *a.sent, a.peer.end.Counts)
	}
	if may, _ := a.peer.MayStart(1, f); may || a.peer.end.Deadline() == 0 {
		t.Errorf("a large flow may start %v in the first flight, deadline %d", may, a.peer.end.Deadline())
	}
	for _, c := range a.credits {
		b.peer.Data(2, Arrival{Bytes: 1000, Credit: c, HasCredit: true, Fresh: true})
	}
	if s := b.peer.end.Receiver.Stats(); s.Drained != 5000 {
		t.Errorf("%d bytes delivered", s.Drained)
	}
	c, ok := b.peer.SentAck(3)
	before := a.inFlight
	a.inFlight = 1000
	a.peer.Answer(4, f, Answer{Credit: c, HasCredit: ok, RTTNs: testRTT, InFlight: before})
	if len(a.released) != 1 || a.released[0] != f || a.window != 5000+4000 {
		t.Errorf("released %v with a window of %d, want the flow and what was in flight and acknowledged", a.released, a.window)
	}
	if n := a.peer.Usable(4); !ok || n != 5000 {
		t.Errorf("the ACK brings %d bytes of pre-credit", n)
	}
	a.peer.TurnOff()
	if len(a.returns) != 1 || a.returns[0].Void != 5000 || a.peer.end.Counts.Returned != 5000 || a.window != 0 {
		t.Errorf("returns %+v at the end, window %d", a.returns, a.window)
	}
	b.peer.Return(5, a.returns[0])
	if n := b.peer.end.Receiver.Outstanding(); n != 0 {
		t.Errorf("%d bytes are still given away", n)
	}
}

// Peers that are ready are served in order, each until there is no room, and all until the last packet of a Send.
// x and y are flows to the first peer, z is one to the second. A flow that cannot use pre-credit gives way to the
// next one.
func TestEndpointSend(t *testing.T) {
	for _, test := range []struct {
		results []Result
		sends   int
		want    string
	}{
		{nil, 1, "[x x y y z z]"},
		{[]Result{ResultLast}, 1, "[x]"},
		{[]Result{ResultLast}, 2, "[x x y y z z]"},
		{[]Result{ResultLast, ResultLast}, 2, "[x x]"},
		{[]Result{ResultSent, ResultFull}, 1, "[x z z]"},
		{[]Result{ResultSent, ResultFull}, 2, "[x z z x y y]"},
		{[]Result{ResultNone}, 1, "[y y z z]"},
		{[]Result{ResultFailed}, 2, "[y y z z]"},
	} {
		a, _ := newEndpoints(10_000)
		x, y := a.flow(0, "x", 2000), a.flow(0, "y", 2000)
		a.second(10_000).flow(0, "z", 2000)
		a.results = test.results
		for range test.sends {
			a.peer.end.Send(0)
		}
		if got := fmt.Sprint(*a.sent); got != test.want {
			t.Errorf("%v: %v has left, want %v", test.results, got, test.want)
		}
		if failed := len(test.results) > 0 && test.results[0] == ResultFailed; x.Begun() == failed || !y.Begun() {
			t.Errorf("%v: flows %v and %v", test.results, x.Begun(), y.Begun())
		}
	}
}

// A grant implies that the peer understands, until it has had the capability and lost it.
func TestPeerUnderstands(t *testing.T) {
	a, _ := newEndpoints(1000)
	p := a.peer
	for i, step := range []struct{ implied, capable, stamps, want bool }{
		{false, false, true, false},
		{true, false, true, true},
		{true, false, false, false},
		{true, true, true, true},
		{true, false, true, false},
		{false, false, true, false},
	} {
		p.Implied = step.implied
		if got := p.Understands(step.capable, step.stamps); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
}

// A flow that waits is released when nothing is in flight, as after another flow has failed.
func TestEndpointEndsWaits(t *testing.T) {
	a, _ := newEndpoints(1000)
	f := a.flow(0, "f", 1<<20)
	a.peer.end.Send(0)
	a.peer.MayStart(1, f)
	if a.peer.end.Step(2); len(a.released) != 0 {
		t.Error("released with a packet in flight")
	}
	a.inFlight = 0
	if released := a.peer.end.Step(3); !released || len(a.released) != 1 {
		t.Errorf("%v, released %v with nothing in flight", released, a.released)
	}
}
